"""Keep compiled code and its disassembly by their inputs, so that each source is compiled and disassembled only once.

The input of the compiler identifies a compilation: the source with all files that its includes may name, or, where a
macro names one, the text that nvcc preprocesses. The key also contains the name of the source, the flags, the
architecture and the version of the compiler. nvcc also reads headers of the system, which have to be as they were. If
the inputs cannot be determined, nothing is kept. A disassembly depends on the tool and on the cubin
without its debug information: the same code has one disassembly, wherever its source lies.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuemu.base import cache
from gpuemu.base.reading import read_whole

MOST_BYTES = 1 << 28
"""Maximum size of all kept code; the most recently used stays."""
_INCLUDE = re.compile(rb"(?:^[ \t]*#[ \t]*include(?:_next)?|__has_include)\b[ \t(]*([^\r\n]*)", re.MULTILINE)
_OF_DEBUGGERS = re.compile(r"(?:\.nv\.merc)?\.(?:rela?\.)?(?:nv_)?debug_")
_NAMED = re.compile(rb'"([^"]+)"|<([^>]+)>')
_CHANGING = re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__|\?\?=|%:|#embed|\\\r?\n[ \t]*include\b|#[ \t]*\\|#[ \t]*/\*")
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def place_of(told: Sequence[object], flags: Sequence[str], text: bytes | None) -> Path | None:
    """Return the path that keeps the cubin of a compilation, or None if its inputs are not all known."""
    words = (word for flag in flags for word in (flag, *re.split("[=,]", flag)) if word)
    if text is None or any(os.path.lexists(word) or word.startswith("@") for word in words):
        return None  # a flag that names a file may make the compiler read it
    given = repr((*told, *flags, os.getcwd(), *map(os.environ.get, _ENVIRONMENT))).encode("utf-8", "backslashreplace")
    return _place(given, text)


def place_of_disassembly(tool: str, cubin: bytes) -> Path:
    """Return the path that keeps what a disassembler prints for a cubin. `tool` identifies it and its version."""
    return _place(tool.encode(), _shown(cubin))


def _shown(cubin: bytes) -> bytes:
    """Return a digest of what a disassembly shows: headers and sections, without debug information and file offsets."""
    try:
        from elftools.elf.elffile import ELFFile

        elf = ELFFile(io.BytesIO(cubin))
        told = hashlib.sha256(repr(dict(elf.header, e_shoff=0, e_phoff=0)).encode())
        for section in elf.iter_sections():
            if _OF_DEBUGGERS.match(section.name) is None:
                told.update(repr((section.name, dict(section.header, sh_name=0, sh_offset=0))).encode())
                told.update(b"" if section["sh_type"] == "SHT_NOBITS" else section.data())
        return told.digest()
    except Exception:  # pyelftools is missing, or raises one of many kinds of errors for a damaged file
        return cubin


def _place(given: bytes, content: bytes) -> Path:
    return cache.cache_folder() / "cubins" / hashlib.sha256(hashlib.sha256(given).digest() + content).hexdigest()[:32]


def kept(place: Path | None) -> bytes | None:
    """Return the cubin that is kept there, if it exists and is undamaged."""
    return None if place is None else cache.kept_file(place)


def keep(place: Path | None, cubin: bytes) -> None:
    """Keep a cubin for the next time."""
    if place is not None:
        cache.keep_file(place, cubin, MOST_BYTES)


def kept_with_files(place: Path) -> bytes | None:
    """Return the cubin that is kept there, if the files that its compiler read have the same content as then."""
    names, _, rest = (kept(place) or b"[]").partition(b"\n")
    size = hashlib.sha256().digest_size
    return rest[size:] if rest and _content_of_all(json.loads(names)) == rest[:size] else None


def keep_with_files(place: Path, cubin: bytes, files: Sequence[str]) -> None:
    """Keep a cubin with the names and the content of the files that its compiler read, if those are known."""
    if files and (content := _content_of_all(files)):
        keep(place, json.dumps(files).encode() + b"\n" + content + cubin)


def _content_of_all(files: Sequence[str]) -> bytes:
    """Return a digest of the content of files; b"" if one of them cannot be read."""
    told = hashlib.sha256()
    for name in files:
        content = _content(Path(name))
        if content is None:
            return b""
        told.update(hashlib.sha256(content).digest())
    return told.digest()


def kept_text(place: Path | None) -> str | None:
    """Return the text that is kept there, if it exists and is undamaged."""
    content = kept(place)
    return None if content is None else zlib.decompress(content).decode()


def keep_text(place: Path | None, text: str) -> None:
    """Keep a text for the next time, compressed."""
    keep(place, zlib.compress(text.encode(), 1))


def all_read(source: bytes, folder: Path, folders: Sequence[Path]) -> bytes | None:
    """Return a digest of a source and of all files that its includes may name, whether they exist or not, recursively.

    `folder` has the source, and `folders` are searched after it. Files in none of them belong to the compiler. Returns
    None if a macro gives the name of an include.
    """
    told = hashlib.sha256(source)
    todo, seen = [(source, folder)], set[Path]()
    while todo:
        text, here = todo.pop()
        if _CHANGING.search(text):
            return None
        for name in _names(text):
            if name is None:
                return None
            for candidate in dict.fromkeys(place / name for place in (here, folder, *folders)):
                if candidate in seen:
                    continue
                seen.add(candidate)
                content = _content(candidate)
                told.update(repr((str(candidate), content)).encode("utf-8", "backslashreplace"))
                if content is not None:
                    todo.append((content, candidate.parent))
    return told.digest()


def _content(path: Path) -> bytes | None:
    try:
        return read_whole(path, MOST_BYTES) if os.path.isfile(path) else None
    except OSError:
        return None


def _names(text: bytes) -> Iterator[str | None]:
    """Yield the names that a text includes or tests for; None for a name that a macro gives."""
    for match in _INCLUDE.finditer(text):
        named = _NAMED.match(match[1])
        yield None if named is None else os.fsdecode(named[1] or named[2])
