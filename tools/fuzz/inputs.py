"""Makes damaged inputs of every kind that gpuemu takes, and hands each to what reads it.

An input is fine if it runs, or is refused with a GpuemuError or a usage message of the command line.
"""

from __future__ import annotations

import functools
import io
import lzma
import random
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import mutators
import numpy as np
from machine_code import MachineCode
from numpy.lib import format as npy
from surroundings import Surroundings

import gpuemu
from gpuemu.base import resources, strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.kernel_arguments import parse_arguments
from gpuemu.cli.launching import ExtentOption
from gpuemu.isa.table import TABLE
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.studies.compare import compare_text
from gpuemu.studies.compare.api import Tolerances, compare
from gpuemu.studies.compare.profile import read_profile
from gpuemu.studies.sweeps.plan import plan
from gpuemu.studies.sweeps.results import records
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Named, Setting, Study, parse_vary
from gpuemu.studies.sweeps.table import lines
from gpuemu.studies.sweeps.work import Outcome
from gpuemu.trace.accel_sim.writing import traceg_lines, write_traceg
from gpuemu.trace.files import TraceFile
from gpuemu.trace.recorded import write_trace
from gpuemu.views import source_text
from gpuemu.views.baseline import Baseline, parse_allowed, read_baseline
from gpuemu.views.json_result import as_data
from gpuemu.views.metrics import Condition, metrics
from gpuemu.views.report.data import page_data
from gpuemu.views.text import report

FINE = (GpuemuError, click.ClickException)
MOST_INSTRUCTIONS = 5_000
"""Longer traces are read but not run."""
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")

TRACE = """\
gpuemu_trace: 1
kernel: fuzz
arch: sm_89
about: what a written trace may hold
launch: {grid: [2, 1, 1], block: [48, 1, 1], registers_per_thread: 32, static_shared_bytes: 64*pitch}
layout: {pitch: 64, first: 0}
code: |
  0000: [B------:R-:W-:-:S05] MOV R1, R2
  0010: [B------:R-:W0:-:S02] LDS.64 R4, [R1]
  0020: [B0-----:R0:W-:-:S02] @!P0 STS.128 [R1], R4
  0030: [B------:R-:W1:-:S02] LDG.E.128 R4, desc[UR4][R2.64]
  0040: [B------:R-:W2:-:S02] LDSM.16.M88.4 R8, [R2]
  0050: [B-12---:R-:W-:-:S08] HMMA.16816.F32 R0, R8, R4, R0
  0060: [B------:R-:W-:-:S05] BAR.SYNC 0x0
  0070: [B------:R-:W3:-:S02] ATOMS.ADD RZ, [R1], R4
  0080: [B------:R-:W4:-:S02] MUFU.RCP R5, R6
  0090: [B---34-:R-:W-:-:S05] BRA 0x0060
  00a0: [B------:R-:W-:-:S05] EXIT
warps:
- cta: all
  warp: 0
  path: [0x0000-0x0050, {repeat: 3, path: 0x0060-0x0090}, 0x00a0]
  addresses:
    0x0010: 8*lane + first
    0x0020: {lanes: 16*lane, active: 0x0000ffff}
    0x0030: 512*cta + 16*lane
    0x0040: 16*(lane % 16) + swizzle(16*lane, 1, 4, 3) % 256
    0x0070: {each: [4*lane, 0, {lanes: pitch*i, active: lane < 16}]}
- warp: [1]
  path: [0x0000, {repeat: 3, path: 0x0060-0x0090}, 0x00a0]
  addresses:
    0x70: [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 0, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
"""
ARCH = """\
name: mine
extends: sm_90
sources: {LAB: measured on my bench}
sm: {max_warps: 48, max_threads_per_cta: 1024}
issue: {policy: gto, dependences: auto}
operations:
  integer: {latency_cycles: 5, issue_interval_cycles: 2}
shared_memory:
  banks: 32
  bank_width_bytes: 4
  latency_cycles: {value: 25, status: measured, source: LAB, note: mean of 100}
  load_merge_distances: [1, 2]
mio: {queue_entries: 8, queue_latency_cycles: 9}
global_memory: {latency_cycles: 500, bytes_per_cycle: 12.5, l1: {line_bytes: 128}}
"""
TRACEG = """\
-kernel name = fuzz
-kernel id = 1
-grid dim = (2,1,1)
-block dim = (40,1,1)
-shmem = 4096
-nregs = 32
-binary version = 86
-cuda stream id = 0
-shmem base_addr = 0x00007f5a60000000
-local mem base_addr = 0x00007f5a58000000
-accelsim tracer version = 5
-enable lineinfo = 1
#traces format
#BEGIN_TB
thread block = 1,0,0
warp = 0
insts = 8
10 0010 ffffffff 1 R4 LDS.64 1 R2 8 1 0x00007f5a60000000 8 0
11 0020 0000000f 1 R6 LDG.E.128 1 R2 16 0 0x00007f0000000000 0x0000000000000010 0x20 0x7f0000000040 0
12 0030 00ff00ff 1 R6 LD.E 1 R2 4 2 0x00007f5a60000000 4 4 -8 4 4 4 4 16 4 4 4 4 4 4 0 0
12 0040 ffffffff 1 R8 LDSM.16.M88.4 1 R2 2 1 0x0 16 0
13 0050 ffffffff 1 R12 HMMA.16816.F32 3 R8 R4 R255 0 0
14 0060 ffffffff 0 LDGSTS.E.BYPASS.128 2 R5 R2 16 1 0x00007f0000000000 512 0
14 0070 ffffffff 0 DEPBAR.LE 0 0 1
15 0100 ffffffff 0 EXIT 0 0 0
warp = 1
insts = 2
10 0010 000000ff 1 R4 LDS.64 1 R2 8 1 0x00007f5a60000000 8 0
15 0100 000000ff 0 EXIT 0 0 0
#END_TB
"""
KERNEL = """
extern "C" __global__ void k(float *a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; i++) a[threadIdx.x] += s[i % 64] / n;
}
"""
_OPERANDS = """
    R0 R4 R255 RZ R8.reuse -R4 |R4| ~R4 R2.64 UR4 URZ UR63 P0 !P6 PT UP0 UPT PR 0x0 0x10 -0x1 1 1.5 +INF 0xffffffffff
    c[0x0][0x160] c[0x3][R4] c[0x0][UR4] [R2] [R2+0x10] [R2.64+UR4] [UR4] [] desc[UR4][R2.64] gdesc[UR8] gsb0 SR_TID.X
    SR_CLOCKLO SR_LANEID SB0 B0 0x0060 `(x) 32@lo(x) ??? R P {0,1} ACTIVEALL
"""
_MODIFIERS = """
    16816 1688 16832 8816 16864 884 F32 F16 BF16 TF32 F64 S8 U8 S4 SP E 64 128 WIDE HI X MMA 16 M88 4 T SYNC ARV RED LE
    SB0 ADD CAS RCP 64x8x16 64x256x32 DEPBAR AND MOV 1 ?
"""
OPERANDS, MODIFIERS, MNEMONICS = _OPERANDS.split(), _MODIFIERS.split(), sorted(TABLE)
TYPES = ("'<f4'", "'<i8'", "'|O'", "'>u2'", "'<U4'", "'<c16'", "[('a', '<f4')]", "'<f'", "3", "'V0'", "'<f16'", "'|b1'")
ARGUMENTS = ("64", "-0x10", "1.5", "zeros:u32:16x4", "random:f16:100", "arange:i8:300", "ones:f64:7", "file:x.npy")
ADDRESSES = (
    ("--lanes", "32*(lane%16) + 16*(lane//16)"), ("--lanes", "where(lane < 16, 4*lane, swizzle(lane, 2, 3, 3))"),
    ("--addresses", ",".join(str(4 * n) for n in range(32))), ("--mask", "0xffff"),
)  # fmt: skip
_LAUNCH = '"0","fuzz(float *)","(48, 1, 1)","(2, 1, 1)"'
PROFILES = (
    '==PROF== Connected\n"ID","Kernel Name","Block Size","Grid Size","sm__cycles_active.max","sm__inst_executed.sum"\n'
    f'"","","","","cycle","inst"\n{_LAUNCH},"1,234.5","60"\n{_LAUNCH},"n/a","60"\n',
    '"ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    f'{_LAUNCH},"S","Executed Instructions","inst","60"\n{_LAUNCH},"S","Registers Per Thread","register/thread","32"\n'
    f'{_LAUNCH},"S","Static Shared Memory Per Block","Kbyte/block","4.10"\n',
    '"Kernel Name","fuzz(float *)"\n"Address","Source","Instructions Executed","L1 Wavefronts Shared"\n'
    + "".join(
        f'"{16 * n}"," {opcode} R0 ","3","{n}"\n'
        for n, opcode in enumerate(
            ("MOV", "LDS.64", "STS.128", "LDG.E.128", "LDSM.16.M88.4", "HMMA.16816.F32", "BAR.SYNC", "ATOMS.ADD",
             "MUFU.RCP", "BRA", "EXIT")
        )
    ),
)  # fmt: skip
SETTINGS = (
    "shared_memory.banks=64", "layout.pitch=3", "shared_memory.load_merge_distances=[1, 2]", "issue.policy=gto",
    "global_memory.bytes_per_cycle=2.5", "sm.max_warps=32",
)  # fmt: skip
VARIATIONS = (
    "shared_memory.banks=16,32,64", "shared_memory.latency_cycles=20..40..5", "layout.pitch=64..80",
    "shared_memory.load_merge_distances=[],[1],[1,2]", "mio.queue_latency_cycles=5..30",
)  # fmt: skip


class Inputs(Surroundings, MachineCode):
    """The kinds of inputs, each a method that makes one by chance and runs it; files go to `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.archs = {name: gpuemu.load_arch(name) for name in ARCHS}
        self.tile = self._file("tile.yaml", TRACE)
        self.mine = self._file("mine.yaml", ARCH)
        shipped = ("v5_swizzle", "toy_transpose_plain")
        self.traces = [TRACE, TRACE, *(resources.find("traces", n).read_text("utf-8") for n in shipped)]
        self.whole_arch = resources.find("configs", "sm_90").read_text(encoding="utf-8")
        self.points = plan(Study((Named("v5_swizzle", "v5_swizzle"),), axes=(parse_vary("mio.queue_entries=1..4"),)))
        store = self.folder / "whole.sqlite"
        with Store(store) as kept:
            numbers = {"cycles": 1, "shared_bytes": 0, "excess_wavefronts": 0, "limited_by": "issue slots"}
            for point in self.points.points:
                kept.add(point, Outcome(point.number, numbers))
        self.whole_store = store.read_bytes()
        self.hold = gpuemu.run(gpuemu.load_trace(self.tile), self.archs["sm_89"])

    def _file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        return path

    def _run(self, trace: gpuemu.Trace, arch: gpuemu.Architecture, *, pages: bool = False) -> None:
        if trace.executed_instructions <= MOST_INSTRUCTIONS:
            result = gpuemu.run(trace, arch)
            as_data(result)
            list(report(result))
            if pages:
                list(source_text.page(result, False, {}))
                page_data(result, {})
                gpuemu.check(trace)

    def trace(self, choose: random.Random) -> None:
        """A trace that was written badly."""
        text = mutators.text(choose, choose.choice(self.traces))
        path = self._file("t.yaml", text.encode("utf-8", "surrogatepass"))
        self._run(gpuemu.load_trace(path), self.archs[choose.choice(ARCHS)])

    def architecture(self, choose: random.Random) -> None:
        """An architecture file."""
        text = mutators.text(choose, self.whole_arch if choose.random() < 0.05 else ARCH)
        arch = gpuemu.load_arch(self._file("a.yaml", text.encode("utf-8", "surrogatepass")))
        if choose.random() < 0.3:
            self._run(gpuemu.load_trace(self.tile), arch)

    def instruction(self, choose: random.Random) -> None:
        """An opcode with operands that may not be its own, with control words or without."""
        code = ""
        control = "[B------:R-:W-:-:S02] " if choose.random() < 0.5 else ""
        for _ in range(choose.choice((1, 1, 3))):
            opcode = ".".join([choose.choice(MNEMONICS), *choose.sample(MODIFIERS, choose.choice((0, 1, 1, 2, 3)))])
            operands = ", ".join(choose.choices(OPERANDS, k=choose.choice((0, 1, 2, 3, 4, 5, 6))))
            code += f"{control}{choose.choice(('', '', '@P0 ', '@!UP1 '))}{opcode} {operands}\n"
        text = "gpuemu_trace: 1\nkernel: k\narch: sm_89\nlaunch: {static_shared_bytes: 4096}\ncode: |\n"
        text += "".join(f"  {line}\n" for line in f"{code}{control}EXIT".splitlines())
        document = strict_yaml.parse(text, "t.yaml")
        addressed = {16 * n: "16*lane" for n, i in enumerate(TraceFile(document, None)._code) if i.accesses_memory}
        text += f"warps:\n- addresses: {addressed}\n".replace("'", "")
        self._run(TraceFile(strict_yaml.parse(text, "t.yaml"), None).bind({}), self.archs[choose.choice(ARCHS)])

    @functools.cached_property
    def _cubins(self) -> list[bytes]:
        from gpuemu.sass.tools.disassembly import load_cubin

        source = self._file("k.cu", KERNEL)
        return [load_cubin(source, arch).content for arch in ("sm_80", "sm_90")]

    def cubin(self, choose: random.Random) -> None:
        """A damaged cubin; one in a hundred also goes to nvdisasm, which takes a while to start."""
        content = mutators.data(choose, choose.choice(self._cubins), choose.choice((0, 64, 64, 64)))
        cubin = read_cubin(content, "k.cubin")
        for kernel in cubin.kernels.values():
            kernel.source_line(0)
        if choose.random() < 0.01:
            from gpuemu.sass.tools.disassembly import decode_function

            decode_function(cubin)

    @functools.cached_property
    def _bulky(self) -> tuple[TraceFile, bytes]:
        choose = np.random.default_rng(1)
        rows = [[int(a) for a in 4 * choose.integers(0, 1000, 32)] for _ in range(700)]
        trace = gpuemu.TraceBuilder("k", arch="sm_89", static_shared_bytes=4096)
        for row in rows:
            trace.emit("LDS R4, [R1]", lanes=row)
        trace.emit("EXIT")
        write_trace(trace.build(), self.folder / "b.yaml")
        document = strict_yaml.load(self.folder / "b.yaml", "b.yaml")
        return TraceFile(document, self.folder), (self.folder / "b.npz").read_bytes()

    @functools.cached_property
    def _accel_sim(self) -> list[str]:
        names = ("v5_swizzle", "toy_transpose_plain")
        written = [list(traceg_lines(gpuemu.load_trace(trace), "t")) for trace in (self.tile, *names)]
        return [TRACEG, *("\n".join([*lines, ""]) for lines in written)]

    def traceg(self, choose: random.Random) -> None:
        """A trace of Accel-Sim's, plain or packed, or a list that names it."""
        text = mutators.text(choose, choose.choice(self._accel_sim)).encode("utf-8", "surrogatepass")
        packed = lzma.compress(text, preset=0)
        packed = mutators.data(choose, packed) if choose.random() < 0.5 else packed
        paths = (self._file("t.traceg", text), self._file("t.traceg.xz", packed), self.folder / "kernelslist.g")
        listed = "MemcpyHtoD,0x00007f0000000000,512\nt.traceg\n"
        listed = mutators.text(choose, listed) if choose.random() < 0.5 else listed
        paths[-1].write_bytes(listed.encode("utf-8", "surrogatepass"))
        trace = gpuemu.load_trace(choose.choice((paths[0], *paths)))
        write_traceg(trace, self.folder / "again.traceg")
        assert gpuemu.load_trace(self.folder / "again.traceg").executed_instructions == trace.executed_instructions
        self._run(trace, self.archs[choose.choice(ARCHS)], pages=True)

    def side_file(self, choose: random.Random) -> None:
        """A damaged side file of a trace: its bytes, or one of its arrays packed again."""
        trace, content = self._bulky
        change = mutators.data if choose.random() < 0.5 else self._packed_again
        self._file("b.npz", change(choose, content))
        self._run(trace.bind({}), self.archs["sm_89"])

    def _packed_again(self, choose: random.Random, content: bytes) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old:
            names = old.namelist()
            hit = choose.choice(names)
            with zipfile.ZipFile(packed, "w", choose.choice((0, 8, 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))) as new:
                for name in names:
                    member = old.read(name)
                    if name == hit:
                        member = self._header(choose) if choose.random() < 0.3 else mutators.data(choose, member)
                    if name != hit or choose.random() < 0.95:
                        new.writestr(name, member)
        return packed.getvalue()

    def _header(self, choose: random.Random) -> bytes:
        """An array with a header that may claim anything."""
        shape = choose.choice(
            ("(3,)", "()", "(True,)", "(-1,)", "(2, 2)", f"({'9' * 23},)", "(1 << 33,)", "(3", "(3,), 4")
        )
        kind = choose.choice(
            ("'<f4'", "'<i8'", "'|O'", "'>u2'", "'<U4'", "'<c16'", "[('a', '<f4')]", "'<f'", "3", "'V0'")
        )
        text = f"{{'descr': {kind}, 'fortran_order': {choose.choice(('False', 'True', '1'))}, 'shape': {shape}, }}"
        text = mutators.text(choose, text) if choose.random() < 0.5 else text
        encoded = (text + "\n").encode("utf-8", "replace")
        version = choose.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\7\0"))
        length = len(encoded) + choose.choice((0, 0, 0, -1, 5))
        size = length.to_bytes(2 if version == b"\1\0" else 4, "little", signed=length < 0)
        return npy.MAGIC_PREFIX + version + size + encoded + bytes(choose.choice((0, 4, 12, 16)))

    def array_file(self, choose: random.Random) -> None:
        """An array on disk for a kernel's argument."""
        content = self._header(choose)
        if choose.random() < 0.3:
            content = mutators.data(choose, content)
        parse_arguments([f"file:{self._file('x.npy', content)}"])

    def argument(self, choose: random.Random) -> None:
        """A value of --arg; sizes that would be taken stay small, since memory is not what is tried here."""
        examples = (
            "64",
            "-0x10",
            "1.5",
            "zeros:u32:16x4",
            "random:f16:100",
            "arange:i8:300",
            "ones:f64:7",
            "file:x.npy",
        )
        text = mutators.text(choose, choose.choice(examples))
        if not (":" in text and sum(map(str.isdigit, text)) > 8 and len(text) < 30):
            parse_arguments([text])

    def extent(self, choose: random.Random) -> None:
        """A value of --block or --grid."""
        ExtentOption().convert(mutators.text(choose, choose.choice(("128", "16,16", "2x3x4"))), None, None)

    def lanes(self, choose: random.Random) -> None:
        """Options of `gpuemu banks`, through the command line."""
        option, value = choose.choice(ADDRESSES)
        access = choose.choice(("LDS", "LDSM.4", "STS.128", "ATOMS.ADD", "LDS.X"))
        options = [access, option, mutators.text(choose, value)]
        options += ["--lanes", "4*lane"] if option == "--mask" else []
        options += ["--format", "json"] if choose.random() < 0.5 else []
        self._command("banks", *options)

    def override(self, choose: random.Random) -> None:
        """A value of --set."""
        from gpuemu.cli.loading import parse_settings

        overrides, layout = parse_settings((mutators.text(choose, choose.choice(SETTINGS)),))
        arch = self.archs[choose.choice(ARCHS)].with_overrides(overrides)
        if choose.random() < 0.2:
            self._run(gpuemu.load_trace(self.tile, layout=layout), arch)

    def variation(self, choose: random.Random) -> None:
        """Values of --vary, as far as the plan."""
        chosen = [mutators.text(choose, example) for example in choose.sample(VARIATIONS, choose.choice((1, 1, 2)))]
        axes = tuple(parse_vary(text) for text in chosen)
        if sum(len(axis.settings) for axis in axes) < 5_000:
            fixed = (Setting("mio.queue_entries", choose.choice((8, 0, "x")), "--set"),)
            plan(Study((Named("tile", str(self.tile)),), fixed=fixed, axes=axes))

    def condition(self, choose: random.Random) -> None:
        """A value of --fail-on."""
        test = Condition(mutators.text(choose, choose.choice(("excess_wavefronts>0", "stall.barrier >= 1.5"))))
        test.holds(metrics(as_data(self.hold)))

    def baseline(self, choose: random.Random) -> None:
        """A file of --baseline, and a value of --allow."""
        data = as_data(self.hold)
        text = Baseline.of("b.yaml", data, metrics(data)).text()
        file = self._file("b.yaml", mutators.text(choose, text).encode("utf-8", "surrogatepass"))
        allowed = parse_allowed([mutators.text(choose, "cycles=2%") if choose.random() < 0.5 else "cycles=2.5%"])
        read_baseline(str(file)).allowing(allowed).verdicts(data, metrics(data))

    def profile(self, choose: random.Random) -> None:
        """What the profiler prints, and a value of --tolerance."""
        text = mutators.text(choose, choose.choice(PROFILES))
        read = read_profile(str(self._file("p.csv", text.encode("utf-8", "surrogatepass"))))
        tolerances = Tolerances([mutators.text(choose, "sm__*=2%") if choose.random() < 0.3 else "2%"])
        found = compare(self.hold, read, choose.choice((None, None, "0")))
        list(compare_text.lines(found, tolerances, True))
        compare_text.as_csv(found, tolerances)

    def store(self, choose: random.Random) -> None:
        """A sweep's store with damaged bytes, or cut short."""
        content = bytearray(self.whole_store)
        for _ in range(choose.choice((1, 1, 3, 50))):
            content[choose.randrange(len(content))] = choose.randrange(256)
        length = choose.choice((len(content), len(content), choose.randrange(len(content))))
        path = self._file("s.sqlite", bytes(content[:length]))
        with Store(path) as store:
            found = store.read(self.points.points)
        done = {n: found.get(n, Outcome(n, error="none")) for n in range(4)}
        list(lines(records(self.points, done), self.points.varied, True))

    def options(self, choose: random.Random) -> None:
        """A whole command line of `gpuemu run`."""
        words = ["run", str(self.tile), "--arch", "sm_89", "--set", "layout.first=0", "--format", "json"]
        words[choose.randrange(1, len(words))] = mutators.text(choose, choose.choice(words[1:]))
        self._command(*words)

    def _command(self, *words: str) -> None:
        from gpuemu.cli.main import cli

        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            cli.main(list(words), standalone_mode=False)


KINDS: dict[str, int] = {
    "trace": 12, "traceg": 3, "architecture": 8, "instruction": 12, "cubin": 7, "machine_code": 1, "side_file": 6,
    "array_file": 7, "argument": 6, "extent": 3, "lanes": 8, "override": 4, "variation": 4, "condition": 2,
    "baseline": 3, "profile": 4, "store": 3, "options": 2, "cache": 2, "name": 2, "output": 1,
}  # fmt: skip
"""The kinds, and how many of a hundred inputs each makes."""


def attempt(inputs: Inputs, kind: str, seed: int) -> BaseException | None:
    """Make and run an input; what it raised that it should not have."""
    choose = random.Random(f"{kind} {seed}")
    action: Callable[[random.Random], None] = getattr(inputs, kind)
    try:
        action(choose)
    except FINE:
        return None
    except SystemExit as error:
        return None if error.code in (0, 1, 2) else error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None
