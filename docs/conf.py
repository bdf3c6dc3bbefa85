"""The site of the documents, for Sphinx: python -m sphinx -W --keep-going -c docs . build/site

Sphinx reads the project's root, so links between files of the repository also work between pages. README.md is the
start page. The pages of validation/ and the release notes are pages, as those of docs/ are. A link to another file,
such as a workflow, offers that file.
"""

from __future__ import annotations

import fnmatch
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import gpuemu  # noqa: E402  # the checkout's, whatever is installed

project = "gpuemu"
author = copyright = "The gpuemu developers"
version = release = gpuemu.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**.md",
    "validation/**.md",
    "tools/h200/*.md",
]
exclude_patterns = ["build", ".*", "**/node_modules"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 3
# What stands in single backticks is code in docstrings, as it is in the pages, and -- is an option's beginning.
default_role = "literal"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# A picture in characters and a command's output have no keywords.
highlight_language = "text"

html_theme = "furo"
html_title = f"gpuemu {version}"
html_extra_path = ["site"]
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_js_files = ["copy.js"]
html_favicon = "static/icon.svg"
html_copy_source = False
html_show_sphinx = False

NAVIGATION = {
    "Tutorials": ["docs/tutorial", "docs/tutorial_zh", "docs/tutorial_hopper"],
    "How-to guides": [
        *("docs/howto/my_kernel", "docs/why", "docs/layouts", "docs/check", "docs/howto/rank", "docs/howto/triton"),
        *("docs/howto/exec", "docs/ci", "docs/what_if", "docs/howto/clock", "docs/howto/judge"),
        *("docs/howto/architecture", "docs/howto/calibrate"),
    ],
    "Reference": [
        *("docs/commands", "docs/report", "docs/result", "docs/trace", "docs/traceg", "docs/machine_code"),
        *("docs/api", "docs/glossary", "docs/systems"),
    ],
    "How it works": ["docs/model", "docs/accuracy", "docs/comparison", "docs/speed"],
    "Project": ["CONTRIBUTING"],
}
"""The pages by chapter, in order: at most 30."""
INSIDE = {
    "docs/accuracy": ["validation/*"],
    "docs/check": ["tools/h200/sanitizer"],
    "docs/howto/exec": ["docs/howto/front_ends"],
    "CONTRIBUTING": ["docs/extending", "SECURITY", "CHANGELOG"],
}
"""Pages that the sidebar shows inside another page; a pattern means all that there are."""

WHAT = "Run CUDA kernels without a GPU: every cycle, stall and bank conflict, and what to do about them."
"""The description of gpuemu on its site."""

LIVE = (
    'Try it in the browser: <a href="example.html">an example report</a>, <a href="layout.html">the layout page</a>, on'
    ' which you pad and swizzle a tile by hand, and <a href="notebook.html">a notebook</a>.'
)
"""Links that the start page has on the site alone."""


BROKEN_CHINESE = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff])")


def with_chinese_lines_joined(app: Sphinx, name: str, source: list[str]) -> None:
    """Join lines that end between two Chinese characters, where a line's end is no blank."""
    source[0] = BROKEN_CHINESE.sub("", source[0])


def toctree(app: Sphinx, pages: list[str], caption: str = "") -> str:
    """A hidden table of contents."""
    there = sorted(app.env.found_docs)
    found = dict.fromkeys(name for entry in pages for name in fnmatch.filter(there, entry) or plain(entry))
    entries = "\n".join(f"/{name}" for name in found)
    title = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{title}\n{entries}\n```\n"


def with_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the chapters at the end of the start page, and the pages inside another at the end of that one."""
    if page == root_doc:
        source[0] = source[0].replace("## Install", f"{LIVE}\n\n## Install", 1)
        source[0] += "".join(toctree(app, pages, chapter) for chapter, pages in NAVIGATION.items())
    elif page in INSIDE:
        source[0] += toctree(app, INSIDE[page])


def with_live_layouts(app: Sphinx, name: str, source: list[str]) -> None:
    """Open the layout page in the browser. As a link to a file that is no page, it would be downloaded."""
    source[0] = source[0].replace("[The layout page](site/layout.html)", '<a href="../layout.html">The layout page</a>')


def plain(entry: str) -> list[str]:
    """The name of a page that does not exist, so that Sphinx warns of it; a pattern may match none."""
    return [] if "*" in entry else [entry]


INDENTED = re.compile(r"^ {4,}\S")
TRAILING_UNDERSCORE = re.compile(r"(?<=\w)_(?=\s|$)")


def as_rest(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text. Lines that are indented by four blanks, after an empty line, are an example."""
    for number in range(len(lines) - 1, -1, -1):
        if not INDENTED.match(lines[number]):
            lines[number] = TRAILING_UNDERSCORE.sub(r"\_", lines[number])
        elif number and not lines[number - 1].strip():
            lines[number:number] = ["::", ""]


def readable(
    app: Sphinx, what: str, name: str, found: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Make a signature with a default from a factory readable for Sphinx, which then sets it in lines."""
    return signature and signature.replace("<factory>", "..."), result


def notebook() -> str:
    """The notebook with its outputs as a page."""
    parts = []
    for cell in json.loads((ROOT / "examples" / "swizzle.ipynb").read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(MarkdownIt().render(text.replace("../docs/tutorial.md", "docs/tutorial.html")))
            continue
        parts.append(f"<pre><code>{html.escape(text)}</code></pre>")
        for output in cell["outputs"]:
            shown = output.get("data", {}).get("text/html") or [
                f"<pre>{html.escape(''.join(output.get('text', ())))}</pre>"
            ]
            parts.append(f"<div class='shown'>{''.join(shown)}</div>")
    head = (ROOT / "docs" / "static" / "notebook.css").read_text(encoding="utf-8")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>From a bank conflict to a swizzle</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>"
        f"<style>{head}</style></head><body>{''.join(parts)}</body></html>"
    )


def with_example(app: Sphinx, error: Exception | None) -> None:
    """Write the example report of `gpuemu run --format html --why` and the executed notebook into the site."""
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "notebook.html").write_text(notebook(), encoding="utf-8")
        result = gpuemu.run("transpose_plain", "sm_89")
        result.to_html(Path(app.outdir) / "example.html", why=gpuemu.why("transpose_plain", "sm_89", jobs=1))


def in_chinese(app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object) -> None:
    """Give Chinese pages their language, which browsers use to read them aloud and to break lines."""
    if page.endswith("_zh"):
        context["language"] = "zh"


def with_preview(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the preview that a posted link to a page shows: its title, a sentence about gpuemu, and a picture."""
    title = html.escape(re.sub(r"<[^>]*>", "", str(context.get("title", project))))
    picture = f"{app.config.html_baseurl}_static/report.png"
    if not app.config.html_baseurl:
        picture = context["pathto"](picture, 1)
    told = {"og:type": "website", "og:title": title, "og:description": WHAT, "og:image": picture}
    context["metatags"] = str(context.get("metatags", "")) + "".join(
        f'<meta property="{name}" content="{text}"/>' for name, text in told.items()
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the functions above; Sphinx calls this."""
    app.add_lexer("csv", TextLexer)
    app.add_lexer("traceg", TextLexer)
    app.connect("source-read", with_navigation)
    app.connect("source-read", with_chinese_lines_joined)
    app.connect("source-read", with_live_layouts)
    app.connect("html-page-context", in_chinese)
    app.connect("html-page-context", with_preview)
    app.connect("build-finished", with_example)
    app.connect("autodoc-process-docstring", as_rest)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True}
