"""Fields of requests and answers, as bytes: see `protocol`."""

from __future__ import annotations

import struct


class Reader:
    """Reads the fields of a message in order."""

    def __init__(self, content: bytes):
        self._content = content
        self._at = 0

    def u32(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self._take(8), "little")

    def dim(self) -> tuple[int, int, int]:
        return self.u32(), self.u32(), self.u32()

    def data(self) -> bytes:
        return self._take(self.u32())

    def text(self) -> str:
        return self.data().decode(errors="replace")

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("a message that is too short")
        self._at += size
        return taken


class Writer:
    """Writes the fields of a message in order."""

    def __init__(self) -> None:
        self.content = b""

    def u32(self, value: int) -> Writer:
        return self._put(struct.pack("<I", value))

    def i32(self, value: int) -> Writer:
        return self._put(struct.pack("<i", value))

    def u64(self, value: int) -> Writer:
        return self._put(struct.pack("<Q", value))

    def f32(self, value: float) -> Writer:
        return self._put(struct.pack("<f", value))

    def data(self, value: bytes) -> Writer:
        return self.u32(len(value))._put(value)

    def text(self, value: str) -> Writer:
        return self.data(value.encode())

    def _put(self, value: bytes) -> Writer:
        self.content += value
        return self
