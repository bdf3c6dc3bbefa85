"""The use of a load's value, from the code alone: its users, a compare-and-swap, a loop that waits.

Compilers let all lanes load a value that only a few of them use. In the other lanes the load is idle, and is no read of
the program. `later_uses` names the instructions that decide: a lane has read once it executes one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.isa.opcodes import Kind, UnknownOpcodeError
from gpuemu.isa.registers import PREDICATES, UNIFORM, written_and_read
from gpuemu.trace.flow import EVERY, bits, living, targets
from gpuemu.trace.model import Instruction

_LOADS = ("LDS", "LDG", "LD")
_FURTHEST = 64
"""The number of instructions over which a value is followed."""
_MOST_BRANCHES = 6
_LONGEST_POLL = 24
"""The most instructions of a loop that only waits, and of the code before it with its first look."""
_MOST_STATES = 4096
_ELSEWHERE = ("CALL", "RET", "BRX", "JMX", "JMP")
_ORDERS = (
    "WARPSYNC",
    "BSYNC",
    "MEMBAR",
    "SYNCS",
    "ARRIVES",
    "UCGABAR_ARV",
    "DEPBAR",
    "CALL",
    "RET",
    "BRX",
    "JMX",
    "JMP",
    "BREAK",
)
_WAITING = ("LDS", "LD", "BRA", "NANOSLEEP", "YIELD", "WARPSYNC", "BSYNC", "BSSY", "NOP", "MEMBAR", "ERRBAR", "CCTL")


def later_uses(code: Sequence[Instruction]) -> dict[int, frozenset[int]]:
    """Loads whose value some of the executing lanes do not use, and the instructions that use it, by offsets."""
    if not any(i.mnemonic in _LOADS for i in code):
        return {}
    branches = targets(code)
    live = living(code, EVERY)
    found = {}
    for k, load in enumerate(code):
        if load.mnemonic in _LOADS:
            uses = _uses(code, branches, live, k)
            if uses:
                found[load.offset] = frozenset(uses)
    return found


def _uses(
    code: Sequence[Instruction], branches: Sequence[int | None], live: Sequence[int], load: int
) -> set[int] | None:
    """The users of a load's value in some lanes only; None if all lanes may use it, or if it is unknown."""
    uses: set[int] = set()
    ways = [(load + 1, bits(code[load].registers[0]), False)]
    parts = 0
    while ways:
        at, held, parted = ways.pop()
        for step in range(_FURTHEST + 1):
            held &= live[at]
            if not held:
                break
            if step == _FURTHEST:
                return None
            instruction = code[at]
            written, read = instruction.registers
            kind, mnemonic = _kind(instruction), instruction.mnemonic
            if kind is None or kind is Kind.BARRIER or mnemonic in _ORDERS:
                return None
            used, passes_on = bool(held & bits(read)), _passes_on(kind, written)
            if used and (instruction.guard or (parted and not passes_on)):
                uses.add(instruction.offset)
            elif used and not passes_on:
                return None
            elif used:
                held |= bits(written)
            elif not instruction.guard:
                held &= ~bits(written)
            if kind is Kind.EXIT:
                if not instruction.guard:
                    break
                parted = True
            target = branches[at]
            if mnemonic == "BRA":
                parts += 1
                if target is None or target <= at or parts > _MOST_BRANCHES:
                    return None
                if not instruction.guard and len(instruction.operands) == 1:
                    at = target
                    continue
                ways.append((target, held, True))
                parted = True
            at += 1
    return uses


def unused_tests(code: Sequence[Instruction]) -> set[int]:
    """The tests of mbarriers whose result nobody uses, by their offsets.

    Before sm_90, a test is a load of the barrier's word, and any load without a use may be one.
    """
    by_loads = any(i.mnemonic == "ATOMS" and i.has("ARRIVE") for i in code)
    tests = {k for k, i in enumerate(code) if i.mnemonic == "SYNCS" and i.has("PHASECHK")}
    if by_loads:
        tests |= {k for k, i in enumerate(code) if i.mnemonic == "LDS"}
    if not tests:
        return set()
    live = living(code, EVERY, acting=True)
    return {code[k].offset for k in tests if not live[k + 1] & bits(code[k].registers[0])}


def guesses(code: Sequence[Instruction]) -> set[int]:
    """The loads whose value a compare-and-swap compares with, which detects a change: such a load is as good as
    atomic.
    """
    found = set()
    for k, swap in enumerate(code):
        if not (swap.parsed.row.numbers == "typed" and swap.has("CAS", "CAST")):
            continue
        address = next((i for i, text in enumerate(swap.operands) if "[" in text), len(swap.operands))
        wanted = set(written_and_read("MOV", ("RZ", *swap.operands[address + 1 : address + 2]), "")[1])
        for instruction in reversed(code[max(0, k - _FURTHEST) : k]):
            written, read = written_and_read(instruction.opcode, instruction.operands, "")
            if wanted.isdisjoint(written):
                continue
            if instruction.mnemonic in _LOADS:
                found.add(instruction.offset)
            if instruction.mnemonic != "MOV" and not (instruction.mnemonic == "IMAD" and instruction.has("MOV")):
                break
            wanted = wanted - set(written) | set(read)
    return found


def looks(code: Sequence[Instruction]) -> dict[int, frozenset[int]]:
    """Plain loads that only decide whether an atomic is needed, such as of a hash table's key, and the atomics.

    Their values go only into comparisons, so an old value costs at most an iteration. A load whose value is stored or
    computed with is none of them.
    """
    if not any(map(_is_atomic, code)):
        return {}
    branches = targets(code)
    live = living(code, EVERY)
    found = {}
    for k, load in enumerate(code):
        if load.mnemonic in _LOADS and not _is_atomic(load):
            atomics = _looked_at_for(code, branches, live, k)
            if atomics:
                found[load.offset] = frozenset(atomics)
    return found


def _looked_at_for(
    code: Sequence[Instruction], branches: Sequence[int | None], live: Sequence[int], load: int
) -> set[int]:
    """The atomics on the paths from a load whose value is only compared; none for another load."""
    ways, seen, found = [(load + 1, bits(code[load].registers[0]))], set[tuple[int, int]](), set[int]()
    while ways:
        at, held = ways.pop()
        while at < len(code):
            held &= live[at]
            if (at, held) in seen:
                break
            seen.add((at, held))
            instruction = code[at]
            written, read = instruction.registers
            kind, mnemonic = _kind(instruction), instruction.mnemonic
            if kind is None or kind is Kind.BARRIER or mnemonic in _ELSEWHERE or len(seen) > _MOST_STATES:
                if held:
                    return set()
                break
            if held & bits(read):
                if mnemonic == "MOV" or (mnemonic == "IMAD" and instruction.has("MOV")):
                    held |= bits(written)
                elif not written or not all(PREDICATES <= register < UNIFORM for register in written):
                    return set()
            elif not instruction.guard:
                held &= ~bits(written)
            if _is_atomic(instruction):
                found.add(instruction.offset)
            if kind is Kind.EXIT and not instruction.guard:
                break
            target = branches[at]
            if mnemonic == "BRA" and target is not None:
                if not instruction.guard and len(instruction.operands) == 1:
                    at = target
                    continue
                ways.append((target, held))
            at += 1
    return found


def updates(code: Sequence[Instruction]) -> set[int]:
    """The loads and stores that change a word in place: a load, and the next store to its address after it."""
    found = set()
    for k, load in enumerate(code):
        if load.mnemonic not in _LOADS or _is_atomic(load):
            continue
        address = _address(load)
        registers = set(written_and_read("MOV", ("RZ", address), "")[1])
        for instruction in code[k : k + _FURTHEST]:
            if instruction.operation.store and not _is_atomic(instruction) and _address(instruction) == address:
                found |= {load.offset, instruction.offset}
            if not registers.isdisjoint(instruction.registers[0]):
                break
    return found


def _is_atomic(instruction: Instruction) -> bool:
    return instruction.parsed.row.numbers == "typed"


def _address(instruction: Instruction) -> str:
    """The text of an access's address, without its width."""
    operand = next((text for text in reversed(instruction.operands) if "[" in text), "")
    return operand[operand.rfind("[") :].replace(".64", "").replace(".U32", "")


def polls(code: Sequence[Instruction]) -> set[int]:
    """The loads of shared memory that wait for another thread: of one place, in a loop that does nothing else.

    In machine code, a volatile variable in shared memory looks like any other. But a compiler would move the load of
    any other variable out of a loop that neither changes the address nor stores. The loop's end must depend on the
    value: a loop that counts its iterations waits for nobody. A first look before the loop counts as well.
    """
    found = set()
    for k, start in enumerate(targets(code)):
        if start is None or start >= k or k + 1 - start > _LONGEST_POLL:
            continue
        loop = code[start : k + 1]
        if not all(map(_only_waits, loop)):
            continue
        written = {r for i in loop for r in i.registers[0]}
        deciding = _deciding(loop)
        for load in (i for i in loop if i.mnemonic == "LDS"):
            address = written_and_read("LDS", ("RZ", *load.operands[1:]), "")[1]
            if written.isdisjoint(address) and not deciding.isdisjoint(load.registers[0]):
                before = code[max(0, start - _LONGEST_POLL) : start]
                found |= {
                    i.offset for i in (load, *before) if (i.opcode, i.operands[1:]) == (load.opcode, load.operands[1:])
                }
    return found


def _deciding(loop: Sequence[Instruction]) -> set[int]:
    """The registers on which the end of a loop depends."""
    found = {
        r for i in loop if i.mnemonic == "BRA" for r in i.registers[1]
    }  # fmt: skip
    before = -1
    while before != len(found):
        before = len(found)
        for instruction in reversed(loop):
            written, read = instruction.registers
            if not found.isdisjoint(written) and instruction.mnemonic != "LDS":
                found |= set(read)
    return found


def _only_waits(instruction: Instruction) -> bool:
    return _kind(instruction) is Kind.FIXED or instruction.mnemonic in _WAITING


def _passes_on(kind: Kind, written: tuple[int, ...]) -> bool:
    """Whether an instruction only computes another value from the value, in each lane by itself."""
    return kind is Kind.FIXED and all(register < PREDICATES for register in written)


def _kind(instruction: Instruction) -> Kind | None:
    try:
        return instruction.operation.kind
    except UnknownOpcodeError:
        return None
