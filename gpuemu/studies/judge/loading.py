"""Machine code that a chip does not load, or that does not declare what it needs."""

from __future__ import annotations

import re

from gpuemu.arch import Architecture
from gpuemu.sass.tools.disassembly import DecodedFunction

_ARCH = re.compile(r"sm_(\d+)(\d)([af]?)")
_REGISTER = re.compile(r"\bR(\d+)\b")
_CHANGES_REGISTERS = "USETMAXREG"


def not_loaded(function: DecodedFunction, arch: Architecture) -> str:
    """Why the chips of an architecture do not load a kernel, as words for a message; "" if they do.

    A cubin is for the compute capabilities of its major number, from its minor number on; one with an "a" only for its
    own. It declares at least as many registers as its highest register needs.
    """
    given, own = _ARCH.fullmatch(function.arch), _ARCH.fullmatch(arch.code_name)
    if given is not None and own is not None:
        fits = given[1] == own[1] and int(given[2]) <= int(own[2])
        if not fits or (given[3] and given[2] != own[2]):
            return f"code for {function.arch}, which {arch.chip} does not load (expected {arch.code_name})"
    if any(instruction.mnemonic == _CHANGES_REGISTERS for instruction in function.code):
        return ""
    operands = (operand for instruction in function.code for operand in instruction.operands)
    highest = max((int(number) for operand in operands for number in _REGISTER.findall(operand)), default=-1)
    if highest >= max(1, function.registers_per_thread):
        count = function.registers_per_thread
        return f"code that uses register R{highest} and says that it has {count} registers"
    return ""
