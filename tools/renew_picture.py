"""Renews the README's picture of the HTML report, with Chromium: python tools/renew_picture.py [PNG]

The picture carries the report's summary as text, so that a test notices without a browser when its figures are old.
GPUEMU_CHROMIUM names the browser if it is not on the PATH.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
import zlib
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from views.browser import Browser  # noqa: E402

PICTURE = ROOT / "docs/static/report.png"
WIDTH, HEIGHT = 1180, 640
COMMAND = ("run", "examples/kernels/transpose.cu", "--block", "256", "--format", "html", "--why")
_KEY = b"Summary\0"
_END = struct.pack(">I", 0) + b"IEND"


def report(file: Path) -> None:
    """Write the report that the picture shows."""
    words = [sys.executable, "-m", "gpuemu", *COMMAND, "-o", str(file)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)


class _Summary(HTMLParser):
    """The text of the report's head and of its costs."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style", "title")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "title")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words += data.split()


def summary(file: Path) -> str:
    """The text at the top of a report: its verdict, its figures, the fix and the most expensive causes."""
    parser = _Summary()
    parser.feed(file.read_text(encoding="utf-8").partition("</ol>")[0])
    return " ".join(parser.words)


def figures(text: str) -> list[str]:
    """The numbers of a summary, in order."""
    return re.findall(r"\d[\d,.]*", text)


def with_text(png: bytes, text: str) -> bytes:
    """A PNG that carries a text, which must be Latin-1."""
    chunk = b"tEXt" + _KEY + text.encode("latin-1", "replace")
    whole = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    head, end, rest = png.rpartition(_END)
    return head + whole + end + rest


def text_of(png: bytes) -> str:
    """The text that a PNG carries, or "" if it has none."""
    at = png.find(b"tEXt" + _KEY)
    if at < 0:
        return ""
    (length,) = struct.unpack(">I", png[at - 4 : at])
    return png[at + 4 + len(_KEY) : at + 4 + length].decode("latin-1")


def main(picture: Path = PICTURE) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as name:
        page, shot = Path(name, "report.html"), Path(name, "report.png")
        report(page)
        with Browser(Path(name, "profile")) as browser:
            browser.dress(WIDTH, HEIGHT, "light")
            browser.open(page)
            browser.picture(shot)
        picture.write_bytes(with_text(shot.read_bytes(), summary(page)))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
