"""Random programs of machine code, executed by NumPy and by compiled loops: python tools/random_programs.py 2000

Each program is integer and float arithmetic, comparisons, logic, conversions, shuffles, votes and accesses to global,
shared and local memory, under guards, with branches that lanes take differently and loops. Registers begin with random
bits, small numbers and the special floats. The tool compares all registers, predicates and memory, and prints a hash of
what each architecture's programs left.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpuemu.sass.compiled import loading  # noqa: E402
from gpuemu.sass.machine.environment import ExecutionError  # noqa: E402
from gpuemu.sass.machine.lanes import Lanes  # noqa: E402
from gpuemu.sass.machine.memory.storage import Memory  # noqa: E402
from gpuemu.sass.machine.recording.recorder import Recorder  # noqa: E402
from gpuemu.sass.machine.scheduling.cta import CtaExecutor  # noqa: E402
from tests.sass.harness import surroundings  # noqa: E402

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
SHARED_BYTES, LOCAL_BYTES, BUFFER_BYTES, BUDGET = 2048, 64, 8192, 20_000
GLOBAL, SHARED, LOCAL, COUNTER = 20, 22, 23, 24
"""Registers of addresses, and of the loop, which the programs do not write."""
SPECIAL = (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x807FFFFF, 0x00800000,
           0x7F7FFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x4F000000, 31, 32, 33, 0x33800000, 0x387FE000, 0x477FF000)  # fmt: skip
FORMS = (
    "IADD3 {d}, {sn}, {in}, {sn}", "IADD3 {d}, {q}, {sn}, {in}, {sn}", "IADD3 {d}, {q}, {q}, {sn}, {in}, {sn}",
    "IADD3.X {d}, {si}, {ii}, {si}, {p}, {p}", "IMAD {d}, {s}, {i}, {sn}", "IMAD.WIDE {e}, {s}, {i}, {w}",
    "IMAD.WIDE.U32 {e}, {s}, {i}, {w}", "IMAD.HI.U32 {d}, {s}, {i}, {w}", "IMAD.HI {d}, {s}, {i}, {w}",
    "IMAD.MOV.U32 {d}, RZ, RZ, {i}", "IMAD.SHL.U32 {d}, {s}, 0x8, RZ",
    "LOP3.LUT {d}, {s}, {i}, {s}, 0x{byte:02x}, !PT", "LOP3.LUT {q}, {d}, {s}, {i}, {s}, 0x{byte:02x}, {p}",
    "SHF.L.U32 {d}, {s}, {i}, RZ", "SHF.R.S32.HI {d}, RZ, {i}, {s}", "SHF.R.U64 {d}, {s}, {i}, {s}",
    "SHF.L.U64.HI {d}, {s}, {i}, {s}", "SHF.R.W.U32 {d}, {s}, {s}, {s}", "SHF.L.W.U32.HI {d}, {s}, {s}, {s}",
    "LEA {d}, {sn}, {in}, {five}", "LEA {d}, {q}, {sn}, {in}, {five}", "LEA.HI {d}, {s}, {in}, {s}, {five}",
    "LEA.HI.SX32 {d}, {s}, {in}, {five}", "LEA.HI.X {d}, {si}, {i}, {s}, {five}, {p}", "MOV {d}, {i}",
    "SEL {d}, {s}, {i}, {p}", "PRMT {d}, {s}, {i}, {s}", "POPC {d}, {si}", "BREV {d}, {si}", "FLO.U32 {d}, {si}",
    "FLO {d}, {s}", "FLO.U32.SH {d}, {s}", "BMSK {d}, {s}, {i}", "SGXT {d}, {s}, {i}", "SGXT.U32 {d}, {s}, {five}",
    "IABS {d}, {s}", "IMNMX {d}, {s}, {i}, {p}", "IMNMX.U32 {d}, {s}, {i}, {p}",
    "ISETP.{c}.{b} {q}, PT, {s}, {i}, {p}", "ISETP.{c}.U32.{b} {q}, PT, {s}, {i}, {p}",
    "ISETP.{c}.U32.{b}.EX {q}, PT, {s}, {i}, {p}, {p}", "ISETP.{c}.{b}.EX {q}, PT, {s}, {i}, {p}, {p}",
    "PLOP3.LUT {q}, {q}, {p}, {p}, {p}, 0x{byte:02x}, 0x{byte:02x}", "FADD {d}, {f}, {g}", "FADD.FTZ {d}, {f}, {g}",
    "FMUL {d}, {f}, {g}", "FMUL.FTZ {d}, {f}, {g}", "FFMA {d}, {f}, {g}, {f}", "FFMA.FTZ {d}, {f}, {g}, {f}",
    "FFMA.SAT {d}, {f}, {g}, {f}", "FADD.FTZ.SAT {d}, {f}, {g}", "FMNMX {d}, {f}, {g}, {p}",
    "FMNMX.FTZ {d}, {f}, {g}, {p}", "FMNMX.NAN {d}, {f}, {g}, {p}", "FSEL {d}, {f}, {g}, {p}",
    "FSETP.{fc}.{b} {q}, {q}, {f}, {g}, {p}", "FSETP.{fc}.FTZ.{b} {q}, PT, {f}, {g}, {p}",
    "FSET.BF.{fc}.{b} {d}, {f}, {g}, {p}", "FCHK {q}, {f}, {g}", "MUFU.RCP {d}, {f}", "MUFU.RSQ {d}, {f}",
    "MUFU.SQRT {d}, {f}", "I2F {d}, {s}", "I2F.U32 {d}, {s}", "F2I {d}, {f}", "F2I.TRUNC.NTZ {d}, {f}",
    "F2I.U32.FLOOR.NTZ {d}, {f}", "F2I.FTZ.CEIL {d}, {f}", "FRND.TRUNC {d}, {f}", "FRND {d}, {f}",
    "F2FP.PACK_AB {d}, {f}, {g}", "F2FP.BF16.PACK_AB {d}, {f}, {g}", "S2R {d}, SR_TID.X",
    "SHFL.{sh} {q}, {d}, {s}, {five}, 0x1f", "SHFL.{sh} {q}, {d}, {s}, {s}, 0x181f", "VOTE.ANY {d}, {q}, {p}",
    "VOTE.ALL {q}, {p}", "VOTE.EQ {q}, {p}", "R2UR {u}, {s}", "UIADD3 {u}, {us}, {us}, URZ",
    "ULOP3.LUT {u}, {us}, {us}, {us}, 0x{byte:02x}, !UPT", "USHF.L.U32 {u}, {us}, 0x3, URZ", "UMOV {u}, 0x1234",
    "IADD3 {d}, {s}, {us}, RZ", "LDG.E {d}, [R20.64+{off4}]", "LDG.E.64 {e}, [R20.64]", "LDG.E.128 {v}, [R20.64]",
    "LDG.E.U8 {d}, [R20.64+{b16}]", "LDG.E.S16 {d}, [R20.64+0x2]", "STG.E [R20.64+{off4}], {s}",
    "STG.E.U8 [R20.64+{b16}], {s}", "STG.E.64 [R20.64], {w}", "LDS {d}, [R22+{off4}]", "LDS.U8 {d}, [R22+{b16}]",
    "LDS.64 {e}, [R22]", "LDS.128 {v}, [R22]", "STS [R22+{off4}], {s}", "STS.64 [R22], {w}", "STS.U16 [R22+0x2], {s}",
    "LDL {d}, [R23+{off4}]", "STL [R23+{off4}], {s}", "LD.E {d}, [R20.64+{off4}]", "ST.E [R20.64+{off4}], {s}", "NOP",
)  # fmt: skip
MORE_FORMS = (
    "HMMA.16816.F32 {v}, {v}, {e}, {v}", "HMMA.16816.F16 {e}, {v}, {e}, {e}", "HMMA.1688.F32 {v}, {e}, {s}, RZ",
    "HMMA.16816.F32.BF16 {v}, {v}, {e}, {v}", "HMMA.1688.F32.TF32 {v}, {v}, {e}, {v}",
    "LDGSTS.E.BYPASS.128 [R22], [R20.64]", "LDGSTS.E [R22+{off4}], [R20.64+{off4}], {p}",
    "LDGSTS.E.64 [R22], [R20.64+0x8], {p}", "LDGSTS.E.BYPASS.128.ZFILL [R22], [R20.64+{off4}]",
    "LDSM.16.M88.4 {v}, [R22]", "LDSM.16.MT88.2 {e}, [R22]", "MUFU.EX2 {d}, {f}", "MUFU.LG2 {d}, {f}",
    "ATOMS.{a} {d}, [R22+{off4}], {s}", "ATOMS.{a} {d}, [R23+{off4}], {s}", "ATOMS.CAS {d}, [R23+0x4], {s}, {s}",
    "ATOMG.E.{a}.STRONG.GPU PT, {d}, [R20.64+{off4}], {s}", "RED.E.{a}.STRONG.GPU [R20.64+{off4}], {s}",
    "ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU PT, {d}, [R20.64], {s}", "ATOM.E.{a}.STRONG.GPU {q}, {d}, [R20.64], {s}",
)  # fmt: skip
"""More forms, of the programs from MORE_FROM on. Products have no guard, since they take whole warps."""
MORE_FROM = 1_000_000
NUMBER_FORMS = (
    "DADD {e}, {w2}, {w2}", "DMUL {e}, {w2}, {w2}", "DFMA {e}, {w2}, {w2}, {w2}", "DADD {e}, {w2}, 1.5",
    "DFMA {e}, {w2}, 0.25, {w2}", "DADD.RM {e}, {w2}, {w2}", "DSETP.{fc}.{b} {q}, {q}, {w2}, {w2}, {p}",
    "DSETP.MIN.AND {q}, {q}, {w2}, {w2}, PT", "DSETP.MAX.AND {q}, {q}, {w2}, {w2}, PT", "MUFU.RCP64H {d}, {f}",
    "MUFU.RSQ64H {d}, {f}", "I2F.F64 {e}, {s}", "I2F.F64.U32 {e}, {s}", "I2F.F64.S64 {e}, {w}", "I2F.F64.U64 {e}, {w}",
    "F2F.F64.F32 {e}, {f}", "F2F.F32.F64 {d}, {w2}", "F2I.F64 {d}, {w2}", "F2I.U32.F64.TRUNC {d}, {w2}",
    "F2I.F64.FLOOR {d}, {w2}", "FRND.F64.FLOOR {e}, {w2}", "I2F.RP {d}, {s}", "I2F.U32.RP {d}, {s}",
    "I2F.U32.RZ {d}, {s}", "I2F.RM {d}, {s}", "FMUL.RZ {d}, {f}, {g}", "FMUL.FTZ.RZ {d}, {f}, {g}",
    "FMUL.RZ.SAT {d}, {f}, {g}", "HFMA2{hm} {d}, {h}, {h}, {h}", "HFMA2.BF16_V2 {d}, {h}, {h}, {h}",
    "HFMA2.MMA {d}, {h}, {h}, 1, 1", "HFMA2.MMA {d}, -RZ, RZ, 0, 5.9604644775390625e-08", "HADD2{hm} {d}, {h}, {h}",
    "HADD2.BF16_V2 {d}, {h}, {h}", "HMUL2{hm} {d}, {h}, {h}", "HMUL2.BF16_V2 {d}, {h}, {h}", "HADD2.F32 {d}, -RZ, {h1}",
    "HADD2.F32 {d}, {h1}, {h1}", "HSETP2.{fc}.{b} {q}, {q}, {h}, {h}, {p}", "HSET2.{fc}.{b} {d}, {h}, {h}, {p}",
    "P2R {d}, PR, {s}, 0x7f", "P2R.B1 {d}, PR, {s}, 0x{seven:02x}", "R2P PR, {s}, 0x3f", "R2P PR, R{r}.B2, 0x{six:02x}",
    "HSET2.BF.{fc}.{b} {d}, {h}, {h}, {p}", "HMNMX2{hx} {d}, {h}, {h}, {p}", "HMNMX2.BF16_V2 {d}, {h}, {h}, {p}",
)  # fmt: skip
"""Forms of float64 and of pairs of 16-bit floats, of the programs from NUMBERS_FROM on."""
TURNS_FROM, NUMBERS_FROM = 2_000_000, 3_000_000
"""From here on programs have loops that lanes leave early, calls, and barriers at which some lanes meet."""


class Program:
    """A program by its seed: its text, and what registers and memory hold before it."""

    def __init__(self, seed: int):
        self._chance = random.Random(seed)
        more = [form for form in MORE_FORMS if seed < TURNS_FROM or not form.startswith(("HMMA", "LDSM"))]
        self._forms = FORMS if seed < MORE_FROM else (*FORMS, *3 * more)
        if seed >= NUMBERS_FROM:
            self._forms = (*FORMS, *4 * NUMBER_FORMS)
        self.turns = NUMBERS_FROM > seed >= TURNS_FROM
        self._labels = 0
        self._functions: list[str] = []
        self.lanes = self._chance.choice((32, 64, 96, 48))
        self.zero_shared = seed % 2 == 0
        numbers = np.random.default_rng(seed)
        self.registers = numbers.integers(0, 1 << 32, (16, self.lanes), np.uint32)
        few = numbers.integers(0, 4, self.registers.shape)
        self.registers[few == 1] = numbers.choice(np.array(SPECIAL, np.uint32), int((few == 1).sum()))
        self.registers[few == 2] = numbers.integers(0, 40, int((few == 2).sum()), np.uint32)
        self.buffer = numbers.integers(0, 256, BUFFER_BYTES, np.uint8)
        lines = [
            "STS.128 [R22], R0",
            *self._body(20, 2),
            "BAR.SYNC 0x0",
            *self._body(20, 2),
            "@P1 EXIT",
            *self._body(8, 1),
        ]
        places: dict[str, int] = {}
        code: list[str] = []
        for line in [*lines, "EXIT", *self._functions]:
            if re.fullmatch(r"LF?[0-9]+", line):
                places[line] = 16 * len(code)
            else:
                code.append(line)
        code = [re.sub(r"\bLF?[0-9]+", lambda found: hex(places[found[0]]), line) for line in code]
        self.text = "\n".join(f"{16 * k:04x}: {line}" for k, line in enumerate(code))

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _body(self, count: int, depth: int) -> list[str]:
        """Instructions; with branches inside of each other up to a depth."""
        lines: list[str] = []
        for _ in range(self._chance.randint(1, count)):
            kind = self._chance.random()
            if self.turns and depth and self._chance.random() < 0.3:
                lines += self._meeting(depth)
            elif depth and kind < 0.08:
                other, end, barrier = self._label(), self._label(), f"B{depth}"
                lines += [f"BSSY {barrier}, {end}", f"{self._guard(True)} BRA {other}", *self._body(6, depth - 1)]
                lines += [f"BRA {end}", other, *self._body(6, depth - 1), end, f"BSYNC {barrier}"]
            elif depth == 2 and kind < 0.13:
                again = self._label()
                lines += [f"MOV R{COUNTER}, {hex(self._chance.randint(1, 4))}", again, *self._body(8, 1)]
                lines += [f"IADD3 R{COUNTER}, R{COUNTER}, -0x1, RZ", f"ISETP.NE.AND P6, PT, R{COUNTER}, RZ, PT"]
                lines.append(f"@P6 BRA {again}")
            else:
                guard, instruction = self._guard(False), self._instruction()
                lines.append(f"{'' if instruction.startswith('HMMA') else guard} {instruction}".strip())
        return lines

    def _meeting(self, depth: int) -> list[str]:
        """A place where lanes part, and wait for each other."""
        chance, end, again, barrier = self._chance, self._label(), self._label(), f"B{2 + depth}"
        match chance.randint(0, 6):
            case 0:  # a loop that lanes leave after different numbers of steps
                register, count = f"R{26 + depth}", chance.randint(1, 7)
                lines = [f"LOP3.LUT {register}, R{chance.randint(0, 15)}, {hex(count)}, RZ, 0xc0, !PT"]
                lines += [f"BSSY {barrier}, {end}", again, *self._body(4, depth - 1)]
                lines += [f"ISETP.GT.AND P6, PT, {register}, 0x0, PT", f"IADD3 {register}, {register}, -0x1, RZ"]
                lines += [f"@!P6 BREAK {barrier}", f"@!P6 BRA {end}"] * chance.randint(0, 1)
                return [*lines, f"@P6 BRA {again}", end, f"BSYNC {barrier}"]
            case 1:
                return ["WARPSYNC.ALL"] if depth == 2 else ["NOP"]
            case 2:  # lanes that name those with them
                other = self._label()
                lines = [f"BSSY {barrier}, {end}", f"@{chance.choice(('', '!'))}P0 BRA {other}"]
                lines += ["VOTE.ANY R31, PT, PT", "WARPSYNC R31", *self._body(3, depth - 1), f"BRA {end}", other]
                lines += ["VOTE.ANY R31, PT, PT", "WARPSYNC R31", *self._body(3, depth - 1)]
                return [*lines, end, f"BSYNC {barrier}"]
            case 3:
                return [chance.choice(("YIELD", "NANOSLEEP 0x20", "@P2 NANOSLEEP 0x20"))] * chance.randint(1, 40)
            case 4:  # some warps wait, others only arrive; the threads are all of the CTA's
                threads = hex(self.lanes)
                lines = ["S2R R30, SR_TID.X", f"ISETP.LT.AND P6, PT, R30, {hex(chance.choice((16, 32, 40)))}, PT"]
                lines += ["BAR.RED.POPC.DEFER_BLOCKING 0x2, P1", "B2R.RESULT R31, P5"] * (depth == 2)
                return [*lines, f"@P6 BAR.ARV 0x1, {threads}", f"@!P6 BAR.SYNC 0x1, {threads}"] if depth == 2 else lines
            case 5:
                function = f"LF{len(self._functions)}"
                body = self._body(3, 0)
                self._functions += [function, *body, "RET.REL.NODEC R32, 0x0"]
                return [f"MOV R32, {end}", f"{self._guard(False)} CALL.REL.NOINC {function}", end]
        return ["@P3 EXIT"] if depth == 2 and chance.random() < 0.3 else ["BAR.SYNC 0x0"] * (depth == 2)

    def _guard(self, always: bool) -> str:
        if not always and self._chance.random() < 0.6:
            return ""
        return f"@{self._chance.choice(('', '!'))}P{self._chance.randint(0, 5)}"

    def _instruction(self) -> str:
        chance = self._chance
        form = chance.choice(self._forms)

        def register() -> str:
            return "RZ" if chance.random() < 0.08 else f"R{chance.randint(0, 15)}"

        def word(signs: str) -> str:
            return f"{chance.choice(('', *signs))}{register()}"

        def or_number(signs: str) -> str:
            return word(signs) if chance.random() < 0.7 else hex(chance.choice((chance.getrandbits(32), *SPECIAL)))

        def single() -> str:
            inside = register()
            return chance.choice(("{}", "-{}", "|{}|", "-|{}|")).format(inside)

        names = {
            "d": lambda: f"R{chance.randint(0, 15)}", "e": lambda: f"R{2 * chance.randint(0, 7)}",
            "v": lambda: f"R{4 * chance.randint(0, 3)}", "w": lambda: f"R{2 * chance.randint(0, 7)}",
            "s": lambda: word(""), "sn": lambda: word("-"), "si": lambda: word("~"),
            "i": lambda: or_number(""), "in": lambda: or_number("-"), "ii": lambda: or_number("~"),
            "f": single, "g": lambda: single() if chance.random() < 0.7 else chance.choice(("1.5", "-0.25", "+INF")),
            "seven": lambda: chance.randint(1, 127), "six": lambda: chance.randint(1, 63),
            "r": lambda: str(chance.randint(0, 15)),
            "w2": lambda: chance.choice(("{}", "{}", "-{}", "|{}|", "-|{}|")).format(
                "RZ" if chance.random() < 0.05 else f"R{2 * chance.randint(0, 7)}"
            ),
            "h": lambda: chance.choice(("{}{}", "{}{}", "-{}{}", "|{}|{}")).format(
                register(), chance.choice(("", ".H0_H0", ".H1_H1", ".H1_H0", ".H0_H1", ".H0_NH1", ".NH1_H0"))
            ),
            "h1": lambda: f"{register()}{chance.choice(('.H0_H0', '.H1_H1'))}",
            "hm": lambda: chance.choice(("", "", ".FTZ", ".SAT", ".RELU")),
            "hx": lambda: chance.choice(("", ".NAN", ".FTZ")),
            "p": lambda: chance.choice(("PT", "!PT", f"P{chance.randint(0, 5)}", f"!P{chance.randint(0, 5)}")),
            "q": lambda: f"P{chance.randint(0, 5)}", "u": lambda: f"UR{chance.randint(4, 7)}",
            "us": lambda: f"UR{chance.randint(4, 7)}", "byte": lambda: chance.randint(0, 255),
            "five": lambda: hex(chance.randint(0, 31)), "b16": lambda: hex(chance.randint(0, 15)),
            "off8": lambda: hex(8 * chance.randint(0, 1)),
            "a8": lambda: chance.choice(("ADD", "AND", "OR", "XOR", "EXCH")),
            "off4": lambda: hex(4 * chance.randint(0, 3)),
            "c": lambda: chance.choice(("LT", "EQ", "LE", "GT", "NE", "GE")),
            "b": lambda: chance.choice(("AND", "OR", "XOR")),
            "a": lambda: chance.choice(("ADD", "MIN", "MIN.S32", "MAX", "MAX.S32", "AND", "OR", "XOR", "INC", "DEC")),
            "sh": lambda: chance.choice(("IDX", "UP", "DOWN", "BFLY")),
            "fc": lambda: chance.choice(("LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "NEU", "GEU")),
        }  # fmt: skip
        return re.sub(r"\{(\w+)(?::02x)?\}", lambda found: _text(names[found[1]]()), form)


def _text(value: Any) -> str:
    return f"{value:02x}" if isinstance(value, int) else str(value)


def left_by(program: Program, arch: str, loops: bool) -> tuple[bytes, str]:
    """All that a program leaves in registers, predicates and memory; or the place and the message of its fault."""
    files = Lanes(program.lanes)
    memory = Memory(
        shared_bytes=SHARED_BYTES, shared_base=0, local_bytes_per_lane=LOCAL_BYTES, lanes=files,
        zero_shared=program.zero_shared,
    )  # fmt: skip
    buffer = program.buffer.copy()
    start = memory.add_buffer("the buffer", buffer)
    environment = surroundings(program.text, lanes=program.lanes, arch=arch, memory=memory, files=files)
    executor = CtaExecutor(environment)
    executor.compiled = loops
    cta = executor.begin(0, Recorder(files, environment.code), False, BUDGET)
    thread = files.thread.astype(np.uint64)
    files.registers[:16, : program.lanes] = program.registers
    for register, values in ((GLOBAL, np.uint64(start) + 32 * thread), (SHARED, 16 * thread), (LOCAL, 0 * thread)):
        files.registers[register] = values.astype(np.uint32)
    files.registers[GLOBAL + 1] = start >> 32
    try:
        executor.go_on(cta)
    except ExecutionError as error:
        return f"{error.instruction} in lane {error.lane}".encode(), str(error)
    found = [files.registers[: 40 if program.turns else 26], files.predicates[:6], files.uniform_registers[:10]]
    found += [buffer, memory.shared[1]]
    if program.turns:
        found.append(np.array([environment.clock, executor.instructions(), cta.executed, cta.turn]))
    return b"".join(part.tobytes() for part in [*found, memory.local[1]]), ""


def of_architecture(start: int, count: int, arch: str) -> range:
    """A third of the numbers of `count` programs. Every program is one of two architectures."""
    return range(start + ARCHITECTURES.index(arch) % 3, start + count, 3)


def compared(seed: int, arch: str) -> str:
    """The hash of what a program leaves. Raises AssertionError where compiled loops leave something else."""
    program = Program(seed)
    plain, looped = left_by(program, arch, False), left_by(program, arch, True)
    assert plain == looped, f"program {seed} on {arch}:\n{program.text}"
    return hashlib.sha256(plain[0]).hexdigest()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", type=int, nargs="?", default=2000)
    programs = parser.parse_args().programs
    loading.LOOPS.force()
    for arch in ARCHITECTURES:
        together = hashlib.sha256()
        starts = 0, MORE_FROM, TURNS_FROM, NUMBERS_FROM
        for seed in [start + number for start in starts for number in range(programs)]:
            together.update(compared(seed, arch).encode())
        print(f"{arch}: {programs:,} programs, {together.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
