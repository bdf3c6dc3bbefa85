"""Measures the example kernels and those of generic.cu on a GPU, and holds the figures against the emulator's.

    python tools/h200/examples.py measure -o FOLDER    # an NVIDIA GPU, CuPy, NumPy, nvcc; ncu for the counters
    python tools/h200/examples.py pages -o FOLDER      # the same and ncu: its pages of some kernels, as it prints them
    python tools/h200/examples.py compare FOLDER       # no GPU needed: replays the machine code that ran, or, where
                                                       # it is not there, what the sources compile to here

`measure` compiles traces/src/*.cu and generic.cu beside this file with nvcc (its transpose also with -G), checks every
result against NumPy, and writes

    FOLDER/device.json    the GPU, its driver, the compiler
    FOLDER/clocks.csv     a launch a row: kernel, whether its result is right, of those of generic.cu the cycles of the
                          second pass, the least of 11 launches
    FOLDER/counters.csv   a launch a row: the profiler's counters
    FOLDER/code.tar.xz    the machine code

`pages` writes FOLDER/raw.csv, details.csv, source.csv, for gpuemu compare, and code.tar.xz.

What one H200 gave is in tools/h200/examples/, without the machine code.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE.parent)]

from example_kernels import EXAMPLES, SOURCES  # noqa: E402

GENERIC = HERE / "generic.cu"
LAUNCHES = 11
ACTIONS = ("load", "load64", "load128", "store", "store64", "store128", "atomic", "reduction")
PLACES = ("32_by_0", "32_by_1", "32_by_2", "32_by_8", "0_by_1", "16_by_1", "16_by_2", "1_by_1")
METRICS = (
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared{op}.sum" for op in ("", "_op_ld", "_op_st", "_op_atom")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
    *(f"sm__sass_inst_executed_op_{op}.sum" for op in ("ldsm", "shared_ld", "shared_st")),
    *(f"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "ldsm", "st")),
    "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "smsp__inst_executed.sum",
    "smsp__cycles_active.max",
)
SHOWN = ("v2_shared_memory", "v5_swizzle", "transpose_plain", "gemm_tile_swizzled")
"""Kernels of which `pages` keeps what the profiler prints."""
CYCLES, SECOND_PASS = METRICS[-1], "cycles of the second pass"
MEMORY_FILE = "memory.csv"
"""Counters of L1, L2 and DRAM, the least and the most of seven launches, warm (the first left out) and flushed."""
MERGED = ("lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum")
"""Those that have stores which merged on their way: not all of it is understood (DEVIATIONS, MERGE)."""


@dataclass(frozen=True)
class Case:
    """A kernel, the cubin that holds it, and its launch; `clocks`: it writes clocks behind its results."""

    name: str
    cubin: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: Any
    tolerance: float = 0.0
    clocks: bool = False


class Difference(NamedTuple):
    """A figure of a launch, measured and emulated."""

    name: str
    metric: str
    measured: int
    emulated: int


def _words() -> tuple[list[Any], None, None]:
    return [np.zeros(8192, np.uint32), np.zeros(34, np.uint32)], None, None


def _tile() -> tuple[list[Any], int, Any]:
    tile = np.arange(1024, dtype=np.float32).reshape(32, 32)
    return [tile, np.zeros_like(tile)], 1, tile.T


@cache
def cases() -> tuple[Case, ...]:
    """Everything that is launched, in the order of launches."""
    found = [
        Case(e.kernel, Path(e.source).stem, e.kernel, e.grid, e.block, e.dynamic_shared_bytes, e.arguments)
        for e in EXAMPLES
        if not e.options
    ]
    found += [
        Case(f"{action}_{place}", "generic", f"{action}_{place}", (1, 1, 1), (32, 1, 1), 0, _words, clocks=True)
        for action in ACTIONS
        for place in PLACES
    ]
    return (
        *found,
        *(
            Case(f"transpose_32x32{build}", f"generic{build}", "transpose_32x32", (1, 1, 1), (32, 32, 1), 0, _tile)
            for build in ("", "_debug")
        ),
    )


def compile_all(folder: Path, arch: str) -> str:
    """Compile every source; returns what nvcc says of itself."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    sources = sorted({e.source for e in EXAMPLES if not e.options})
    builds = {Path(name).stem: (SOURCES / name, ()) for name in sources}
    builds |= {"generic": (GENERIC, ()), "generic_debug": (GENERIC, ("-G",))}
    for name, (source, options) in builds.items():
        lines = () if options else ("-lineinfo",)
        with tempfile.TemporaryDirectory() as own:  # nvcc hands the names of files to a shell
            made = Path(own) / f"{name}.cubin"
            command = [nvcc, "-cubin", f"-arch={arch}", *lines, *options, "-o", str(made), str(source)]
            subprocess.run(command, check=True)
            shutil.copy(made, folder)
    return subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def launch_all(folder: Path, launches: int) -> list[dict[str, Any]]:
    """Launch every case; a row for each."""
    import cupy

    rows = []
    modules: dict[str, Any] = {}
    for case in cases():
        if case.cubin not in modules:
            modules[case.cubin] = cupy.RawModule(path=str(folder / f"{case.cubin}.cubin"))
        function = modules[case.cubin].get_function(case.kernel)
        given, output, expected = case.arguments()
        passed = [cupy.asarray(a) if isinstance(a, np.ndarray) else np.int32(a) for a in given]
        clocks = []
        for _ in range(launches):
            function(case.grid, case.block, tuple(passed), shared_mem=case.shared_bytes)
            cupy.cuda.runtime.deviceSynchronize()
            if case.clocks:
                clocks.append(int(passed[1][33]))
        right = ""
        if output is not None:
            found = cupy.asnumpy(passed[output])
            right = "yes" if np.allclose(found, expected, rtol=0, atol=case.tolerance) else "no"
        rows.append({"kernel": case.name, "right": right, "cycles_second_pass": min(clocks, default="")})
    return rows


def keep_code(code: Path, output: Path) -> None:
    """Put the cubins of a folder into an archive."""
    with tarfile.open(output / "code.tar.xz", "w:xz") as archive:
        for file in sorted(code.glob("*.cubin")):
            archive.add(file, file.name)


def pages(output: Path) -> None:
    """All of `pages`. Raises CalledProcessError where the profiler fails."""
    from validation.measure import cupy, device_facts
    from validation.profiler import find_ncu

    ncu = find_ncu()
    if ncu is None:
        sys.exit("no profiler (ncu) here")
    arch = "sm_" + device_facts(cupy())["compute_capability"].replace(".", "")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder)
        compile_all(code, arch)
        keep_code(code, output)
        command = [ncu, "--set", "full", "--cache-control", "none", "--clock-control", "none"]
        command += ["--kernel-name", f"regex:^({'|'.join(SHOWN)})$", "-o", str(code / "report"), "-f"]
        subprocess.run([*command, sys.executable, __file__, "launch", str(code)], check=True)
        for page, more in (("raw", ()), ("details", ()), ("source", ("--print-source", "sass"))):
            command = [ncu, "--import", str(code / "report.ncu-rep"), "--csv", "--page", page, *more]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            (output / f"{page}.csv").write_text(printed, encoding="utf-8")


def measure(output: Path) -> None:
    """All of `measure`."""
    from validation.measure import cupy, device_facts
    from validation.profiler import find_ncu

    facts = device_facts(cupy())
    arch = "sm_" + facts["compute_capability"].replace(".", "")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder)
        facts["compiler"] = compile_all(code, arch)
        (output / "device.json").write_text(json.dumps(facts, indent=2) + "\n")
        keep_code(code, output)
        _write(output / "clocks.csv", launch_all(code, LAUNCHES))
        ncu = find_ncu()
        if ncu is None:
            print("no profiler (ncu) here: counters are not recorded")
            return
        log = code / "ncu.csv"
        command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)]
        command += ["--cache-control", "none", "--clock-control", "none", "--log-file", str(log)]
        done = subprocess.run(
            [*command, sys.executable, __file__, "launch", str(code)], capture_output=True, text=True, check=False
        )
        text = log.read_text(errors="replace") if log.is_file() else ""
        rows = counters(text)
        if len(rows) != len(cases()):
            print(f"counters of {len(rows)} of {len(cases())} launches", (done.stdout + done.stderr + text)[-2000:])
        _write(output / "counters.csv", [{"kernel": c.name} | row for c, row in zip(cases(), rows, strict=False)])


def counters(text: str) -> list[dict[str, int]]:
    """The counters of each launch of our kernels, from the profiler's raw page."""
    ours = {case.kernel for case in cases()}
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = []
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        if (row.get("Kernel Name") or "").split("(")[0].strip() in ours and (row.get("ID") or "").isdigit():
            values = {metric: (row.get(metric) or "").replace(",", "") for metric in METRICS}
            rows.append({metric: int(float(value)) for metric, value in values.items() if value[:1].isdigit()})
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["kernel"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def emulated(case: Case, cubin: Any, arch: str) -> tuple[dict[str, int], int | None]:
    """The emulator's counters of a case, and the cycles of its second pass."""
    import gpuemu

    given, _, _ = case.arguments()
    ctas = range(math.prod(case.grid))
    trace = gpuemu.trace_kernel(
        cubin, case.kernel, case.grid, case.block, case.shared_bytes, given, arch=arch, ctas=ctas
    )
    result = gpuemu.run(trace, gpuemu.load_arch(arch))
    clocks = result.warps[0].clock_reads
    found = dict(result.counters) | {"smsp__cycles_active.max": result.cycles}
    return found, clocks[3] - clocks[2] if case.clocks else None


def compiled(folder: Path, arch: str) -> Any:
    """The cubin of each name: the one that ran on the GPU, else what its source compiles to here."""
    from gpuemu.sass.image.cubin import read_cubin
    from gpuemu.sass.tools.disassembly import load_cubin

    if (folder / "code.tar.xz").is_file():
        with tarfile.open(folder / "code.tar.xz") as archive:
            code = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
        return cache(lambda name: read_cubin(code[f"{name}.cubin"], f"{name}.cubin"))

    def compile_source(name: str) -> Any:
        plain = name.removesuffix("_debug")
        source = GENERIC if plain == "generic" else SOURCES / f"{plain}.cu"
        return load_cubin(source, arch, options=("-G",) if plain != name else ())

    return cache(compile_source)


def differences(folder: Path, names: Collection[str] | None = None) -> Iterator[Difference]:
    """Each figure that was measured, with the emulator's; `names` are the launches to replay, by default all."""
    facts = json.loads((folder / "device.json").read_text())
    arch = "sm_" + facts["compute_capability"].replace(".", "")
    code = compiled(folder, arch)
    measured = [list(csv.DictReader((folder / name).open())) for name in ("counters.csv", "clocks.csv")]
    for row, clock in zip(*measured, strict=True):
        case = next(c for c in cases() if c.name == row["kernel"])
        if names is not None and case.name not in names:
            continue
        if clock["right"] == "no":
            yield Difference(case.name, "THE RESULT IS WRONG ON THE GPU", 0, 1)
        found, cycles = emulated(case, code(case.cubin), arch)
        for metric in METRICS:
            if metric in found and row[metric] != "":
                yield Difference(case.name, metric, int(row[metric]), found[metric])
        if cycles is not None:
            yield Difference(case.name, SECOND_PASS, int(clock["cycles_second_pass"]), cycles)


def memory_differences(folder: Path) -> Iterator[Difference]:
    """Each counter of memory.csv of kernels of one CTA, with the emulator's; of a spread the nearer end."""
    import gpuemu

    code, by_launch = compiled(folder, "sm_90"), defaultdict[tuple[str, str], list[dict[str, str]]](list)
    for row in csv.DictReader((folder / MEMORY_FILE).open()):
        by_launch[row["kernel"], row["caches"]].append(row)
    for case in cases():
        for caches, first_touch in (("warm", "l2"), ("flushed", "dram")):
            rows = by_launch.get((case.name, caches), [])
            if not rows or math.prod(case.grid) > 1:
                continue
            given, _, _ = case.arguments()
            trace = gpuemu.trace_kernel(
                code(case.cubin), case.kernel, case.grid, case.block, case.shared_bytes, given, arch="sm_90"
            )
            arch = gpuemu.load_arch("sm_90").with_overrides({"global_memory.first_touch": first_touch})
            counters = gpuemu.run(trace, arch).counters
            for row in rows:
                found, least, most = counters[row["metric"]], int(row["least"]), int(row["most"])
                yield Difference(f"{case.name}, {caches}", row["metric"], min(max(found, least), most), found)


def compare(folder: Path) -> int:
    """Print every figure that differs, and how many do not; returns the number that differ, cycles left out."""
    counts = Counter[bool]()
    print(f"{'':28} {'':69} measured emulated")
    more = memory_differences(folder) if (folder / MEMORY_FILE).is_file() else iter(())
    for found in chain(differences(folder), more):
        counted = found.metric not in (SECOND_PASS, CYCLES)
        if counted:
            counts[found.measured == found.emulated] += 1
        if not counted or found.measured != found.emulated:
            print(f"{found.name:28} {found.metric:69} {found.measured:>8} {found.emulated:>8}")
    print(f"{counts[True]} counters are the same, {counts[False]} differ")
    return counts[False]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("measure", "on the GPU of this machine"), ("pages", "what its profiler prints")):
        commands.add_parser(name, help=text).add_argument(
            "-o", "--output", type=Path, required=True, help="folder to write to"
        )
    for name, text in (("compare", "hold what was measured against the emulator"), ("launch", "what ncu starts")):
        commands.add_parser(name, help=text).add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.output)
    elif given.command == "pages":
        pages(given.output)
    elif given.command == "launch":
        launch_all(given.folder, 1)
    else:
        return 1 if compare(given.folder) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
