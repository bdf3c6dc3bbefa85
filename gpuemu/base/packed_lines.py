"""Read the lines of a text file, plain or .xz, in pieces. No file needs more memory than one piece and one line.

for number, line in numbered_lines(Path("kernel-1.traceg.xz"), "kernel-1.traceg.xz"):
    ...
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

from gpuemu.base.errors import GpuemuError

MOST_BYTES = 1 << 30
"""Maximum size of a file, unpacked."""
MOST_IN_A_LINE = 1 << 13
"""Maximum length of a line, in characters."""
_PIECE = 1 << 20
_UNPACKING_MEMORY = 1 << 28
"""Memory limit for unpacking; xz -9 needs 65 MiB."""
PACKED = ".xz"


def numbered_lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank, without its end and with its number from 1; messages call the file `name`.

    A file is packed if its name ends in .xz. Raises GpuemuError for a file that is not text, that ends within a line or
    within its packed data, or that is longer than MOST_BYTES.
    """
    number, rest, total = 0, b"", 0
    for piece in _unpacked(path, name) if path.name.endswith(PACKED) else _plain(path, name):
        total += len(piece)
        if total > MOST_BYTES:
            right = "The file is too large to read"
            raise GpuemuError.one(name, number + 1, "", f"more than {MOST_BYTES:,} bytes of text", right)
        whole, end, rest = (rest + piece).rpartition(b"\n")
        for line in whole.split(b"\n") if end else ():
            number += 1
            if line and not line.isspace():
                yield number, _text(line, name, number)
        if len(rest) > MOST_IN_A_LINE:
            raise _too_long(name, number + 1)
    if rest:
        right = "The file seems to be cut off: write it again"
        raise GpuemuError.one(name, number + 1, "", "the last line has no end", right)


def _text(line: bytes, name: str, number: int) -> str:
    if len(line) > MOST_IN_A_LINE:
        raise _too_long(name, number)
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise GpuemuError.one(name, number, "", "bytes that are not text", "expected text in UTF-8") from None


def _too_long(name: str, number: int) -> GpuemuError:
    right = "Split the line, or check that this is the right file"
    return GpuemuError.one(name, number, "", f"a line of more than {MOST_IN_A_LINE} characters", right)


def _plain(path: Path, name: str) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise GpuemuError.one(
            name, None, "", (error.strerror or str(error)).lower(), "expected a file that can be read"
        ) from None


def _unpacked(path: Path, name: str) -> Iterator[bytes]:
    """Yield the content of one or more .xz streams in pieces, without trust in the sizes in their headers."""
    right = "expected a whole file as xz writes it"
    decoder: lzma.LZMADecompressor | None = None
    try:
        for packed in _plain(path, name):
            while packed:
                if decoder is None:
                    packed = packed.lstrip(b"\0")  # streams may be padded
                    if not packed:
                        break
                    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_UNPACKING_MEMORY)
                piece = decoder.decompress(packed, _PIECE)
                while piece or not (decoder.needs_input or decoder.eof):
                    yield piece
                    piece = b"" if decoder.eof or decoder.needs_input else decoder.decompress(b"", _PIECE)
                packed = decoder.unused_data if decoder.eof else b""
                decoder = None if decoder.eof else decoder
    except lzma.LZMAError:
        raise GpuemuError.one(name, None, "", "bytes that xz cannot unpack", right) from None
    if decoder is not None:
        raise GpuemuError.one(name, None, "", "a packed file that is cut off", right)
