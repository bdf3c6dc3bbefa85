"""Find instructions that may poll memory until another thread writes it, and the condition that their loops wait for.

A poll is called a look. Strong loads, and atomics that return the old value, may always be looks. Plain loads and
shared-memory loads count only if a loop reads one address repeatedly. A compiler would have moved any other such load
out of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.isa.opcodes import Kind, UnknownOpcodeError
from gpuemu.isa.operands import parse_operand
from gpuemu.isa.registers import written_and_read
from gpuemu.trace.flow import goes_elsewhere, targets, ways
from gpuemu.trace.model import Instruction

_LONGEST_LOOP = 48
_LONGEST_WAIT = 128
"""Maximum number of instructions of a loop that may only wait."""
_TEST_BEHIND = 16
"""Maximum distance of the test and the branch after a look, in instructions."""
_ONLY_READ = ("LDG", "LD", "LDS", "SYNCS")
"""Looks that do not change memory."""
_HARMLESS = (Kind.FIXED, Kind.VARIABLE, Kind.LANE_REGISTER, Kind.BRANCH)
_VARYING = ("CS2R", "CS2UR", "VOTE", "VOTEU")
"""Clocks, and results that depend on which lanes are together."""
_OPPOSITE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_WORDS = {
    "EQ": "is", "NE": "is other than", "LT": "is below", "GE": "is at least", "GT": "is above", "LE": "is at most",
}  # fmt: skip


def looks(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the numbers of the instructions that may be looks."""
    found = {k for k, instruction in enumerate(code) if always_looks(instruction)}
    for k, start in enumerate(targets(code)):
        if start is None or not 0 <= k - start <= _LONGEST_LOOP:
            continue
        loop = code[start : k + 1]
        plain = [n for n in range(start, k + 1) if code[n].mnemonic in ("LDG", "LD", "LDS")]
        if not plain:
            continue
        written = {register for instruction in loop for register in _registers(instruction)[0]}
        for n in plain:
            if written.isdisjoint(_registers(code[n], address_only=True)[1]):
                found.add(n)
    return frozenset(found)


def always_looks(instruction: Instruction) -> bool:
    """Whether an instruction may be a look in any position."""
    match instruction.mnemonic:
        case "LDG" | "LD":
            return instruction.has("STRONG", "MMIO")
        case "ATOM" | "ATOMG" | "ATOMS":
            return "RZ" not in instruction.operands[:2]
        case "SYNCS":
            return instruction.has("PHASECHK")
        case "USETMAXREG":
            return instruction.has("TRY_ALLOC")
    return False


def _registers(instruction: Instruction, address_only: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    operands = ("RZ", *instruction.operands[1:]) if address_only else instruction.operands
    try:
        written, read = written_and_read(instruction.opcode, operands, instruction.guard)
    except UnknownOpcodeError:
        return (), ()
    return tuple(written), tuple(read)


def only_wait(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the looks whose loop continues until the look finds another value, independent of its other changes.

    Such a loop has one look and changes no memory. Every branch that leaves it depends on the value of the look and on
    registers that the loop does not write. The loop may count its iterations, read the clock and sleep.
    """
    next_ = ways(code)
    found, loops = set(), _loops(next_)
    for look in looks(code):
        loop = next((loop for loop in loops if look in loop and len(loop) <= _LONGEST_WAIT), frozenset())
        harmless = loop and code[look].mnemonic in _ONLY_READ and all(_harmless(code[k]) for k in loop - {look})
        if harmless and _Exits(code, next_, loop, look).depend_on_the_look():
            found.add(look)
    return frozenset(found)


def _loops(next_: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Return the loops of the code, each with all paths from its first instruction back to it; the smallest first."""
    before: dict[int, list[int]] = {}
    for k, ways_ in enumerate(next_):
        for way in ways_:
            before.setdefault(way, []).append(k)
    found = []
    for first, comes in before.items():
        loop, left = {first}, [k for k in comes if k >= first]
        if not left:
            continue
        while left:
            k = left.pop()
            if k not in loop:
                loop.add(k)
                left += before.get(k, ())
        if first == 0 or 0 not in loop:  # otherwise it has a second entry
            found.append(frozenset(loop))
    return sorted(found, key=len)


def _harmless(instruction: Instruction) -> bool:
    """Whether an instruction does not read or change data that other threads see, and continues at a known place."""
    try:
        operation = instruction.operation
    except UnknownOpcodeError:
        return False
    if goes_elsewhere(instruction):
        return False
    return operation.kind in _HARMLESS and not operation.store and not operation.atomic


class _Exits:
    """The branches that leave a loop, and their dependences."""

    def __init__(
        self, code: Sequence[Instruction], next_: Sequence[Sequence[int]], loop: frozenset[int], look: int
    ):  # fmt: skip
        self._code, self._look = code, look
        self._leave = [k for k in loop if not loop.issuperset(next_[k]) or code[k].operation.kind is Kind.EXIT]
        self._before = {k: [n for n in loop if k in next_[n]] for k in loop}
        self._written = {r for k in loop for r in _registers(code[k])[0]}
        self._answers: dict[tuple[int, int], bool] = {}

    def depend_on_the_look(self) -> bool:
        """Whether all of them depend only on the look and on values that the loop does not change."""
        if not self._written.isdisjoint(_registers(self._code[self._look], address_only=True)[1]):
            return False
        return all(self._known(k, r) for k in self._leave for r in _registers(self._code[k])[1])

    def _known(self, at: int, register: int) -> bool:
        """Whether a register has the same value at an instruction in each iteration while the look finds the same."""
        if register not in self._written:
            return True
        question = at, register
        if question not in self._answers:
            self._answers[question] = False  # for a register that depends on itself from iteration to iteration
            writers = self._writers(at, register)
            self._answers[question] = len(writers) == 1 and self._repeats(*writers)
        return self._answers[question]

    def _repeats(self, writer: int) -> bool:
        """Whether an instruction writes the same value in each iteration."""
        instruction = self._code[writer]
        if writer == self._look or instruction.guard:
            return not instruction.guard
        if instruction.mnemonic in _VARYING or instruction.operation.kind is not Kind.FIXED:
            return False
        return all(self._known(writer, r) for r in _registers(instruction)[1])

    def _writers(self, at: int, register: int) -> set[int]:
        """Return the instructions of the loop from which `at` may have the register's value."""
        found: set[int] = set()
        seen: set[int] = set()
        left = list(self._before[at])
        while left:
            k = left.pop()
            if k in seen:
                continue
            seen.add(k)
            written = register in _registers(self._code[k])[0]
            if written:
                found.add(k)
            if not written or self._code[k].guard:
                left += self._before[k]
        return found


def awaited(code: Sequence[Instruction], look: int) -> tuple[str, int, int] | None:
    """Return the condition that ends the loop around a look: the comparison in words, and its instruction and operand.

    The result is None if the code after the look is not clearly a comparison and a branch back.
    """
    value = parse_operand(code[look].operands[0]).register
    branches = targets(code)
    test: tuple[str, str, int, int] | None = None
    for k in range(look + 1, min(look + _TEST_BEHIND, len(code))):
        instruction = code[k]
        if test is None and instruction.mnemonic == "ISETP" and value is not None:
            names = [parse_operand(operand).register for operand in instruction.operands]
            compare = next((m for m in instruction.parsed.modifiers if m in _OPPOSITE), None)
            if compare is None or value not in names or instruction.operands[-1] != "PT":
                continue
            at = names.index(value)
            test = instruction.operands[0], compare if at == 2 else _MIRRORED[compare], k, 3 if at == 2 else 2
        elif test is not None and instruction.mnemonic == "BRA" and instruction.guard.lstrip("@!") == test[0]:
            start = branches[k]
            if start is None:
                return None
            # A branch back continues to wait while its predicate is true; a forward branch ends the wait.
            waits = (start <= look) != instruction.guard.startswith("@!")
            return _WORDS[_OPPOSITE[test[1]] if waits else test[1]], *test[2:]
    return None
