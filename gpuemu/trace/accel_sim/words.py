"""The words of a .traceg file: their formats, the reader's position in the file, and the errors for wrong words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from gpuemu.base.errors import GpuemuError
from gpuemu.trace.accel_sim.form import EACH, RZ, STEPS, STRIDE
from gpuemu.trace.ranges import MAX_ADDRESS

WHOLE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
SIGNED = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)
HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}\Z", re.ASCII)
ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}\Z", re.ASCII)
PC = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,8}\Z", re.ASCII)
MASK = re.compile(r"[0-9a-fA-F]{8}\Z", re.ASCII)
REGISTER = re.compile(r"R([0-9]{1,3})\Z", re.ASCII)
OPCODE = re.compile(r"[A-Za-z_][\w.]*\Z", re.ASCII)


class Cursor:
    """The position of a reader in a file that messages call `name`: line `at`, or 0 before the first line."""

    def __init__(self, name: str, lines: Iterator[tuple[int, str]]):
        self.name = name
        self.at = 0
        self._lines = lines

    def next(self) -> str | None:
        """Return the next line that is not blank, or None at the end."""
        found = next(self._lines, None)
        if found is None:
            return None
        self.at, line = found
        return line

    def refuse(self, field: str, found: str, right: str) -> NoReturn:
        raise GpuemuError.one(self.name, self.at or None, field, found, right)


def shown(text: str) -> str:
    """Return as much of a text as a message has room for."""
    printable = "".join(c if c.isprintable() else "?" for c in text.strip())
    return f"'{printable[:60]}{'...' * (len(printable) > 60)}'"


@dataclass
class Words:
    """The words of an instruction line from ND on, read one by one."""

    words: list[str]
    cursor: Cursor
    at: int = 0

    def next(self, name: str, form: re.Pattern[str], right: str) -> str:
        if self.at >= len(self.words):
            self.cursor.refuse(name, "the end of the line", right)
        word = self.words[self.at]
        if not form.match(word):
            self.cursor.refuse(name, shown(word), right)
        self.at += 1
        return word

    def registers(self, name: str, most: int) -> list[int]:
        """Read a number of registers, and then the registers."""
        right = f"expected the number of registers, 0 to {most}, and then the registers"
        count = int(self.next(name, WHOLE, right))
        if count > most:
            self.cursor.refuse(name, str(count), right)
        found = []
        for _ in range(count):
            word = self.next(name, REGISTER, right)
            if int(word[1:]) > RZ:
                self.cursor.refuse(name, word, "expected R0 to R254, and R255 for RZ")
            found.append(int(word[1:]))
        return found

    def addresses(self, mask: int) -> list[int]:
        """Read the addresses of the mask's lanes, in lane order."""
        mode = int(self.next("MODE", WHOLE, "expected 0, 1 or 2"))
        count, first_lane = mask.bit_count(), (mask & -mask).bit_length() - 1
        found: list[int] = []
        if mode == EACH:
            right = "expected an address such as 0x00007f0000000000 for each lane of the mask"
            found = [int(self.next("MODE 0", ADDRESS, right), 16) for _ in range(count)]
        elif mode == STRIDE:
            base = self._base("MODE 1")
            stride = int(self.next("MODE 1", SIGNED, "expected a base and a stride in decimal"))
            if mask and (count < 2 or mask >> first_lane != (1 << count) - 1):
                self.cursor.refuse("MODE 1", f"the mask {mask:08x}", "expected two lanes or more, side by side")
            found = [base + stride * k for k in range(count)] if stride else [base] * count
        elif mode == STEPS:
            found = [self._base("MODE 2")]
            for _ in range(count - 1):
                right = f"expected a base and {count - 1} differences in decimal for {count} lanes"
                found.append(found[-1] + int(self.next("MODE 2", SIGNED, right)))
            found = found[:count]
        else:
            self.cursor.refuse("MODE", str(mode), "expected 0, 1 or 2")
        for address in found:
            if not 0 <= address <= MAX_ADDRESS:
                self.cursor.refuse(f"MODE {mode}", f"the address {address:#x}", f"expected 0x0 to {MAX_ADDRESS:#x}")
        return found

    def _base(self, mode: str) -> int:
        return int(self.next(mode, HEX, "expected a base such as 0x00007f0000000000"), 16)

    def end(self) -> None:
        """Refuse words after the end of the line."""
        if self.at < len(self.words):
            found = " ".join(self.words[self.at :])
            self.cursor.refuse("", f"{shown(found)} after IMM", "expected the end of the line")
