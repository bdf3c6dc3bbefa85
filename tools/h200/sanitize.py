"""Runs the kernels with planted faults under compute-sanitizer on a real GPU, beside what `gpuemu check` says of them.

    python tools/h200/sanitize.py --kernels tests/studies/check/kernels -o sanitizer.md

On the machine with the GPU it needs nvcc and compute-sanitizer on the PATH, and gpuemu with its tests beside it: the
launches are those of tests/studies/check/test_kernels.py. Each `.cu` is compiled once with a main() that launches one
kernel by name, with the arguments' bytes from files. For each kernel and tool a row of the table has what either said.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 60
MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <vector>
// kernel, ctas, threads, shared bytes, then each argument: b:FILE (a buffer), e:BYTES (one without values), v:NUMBER
int main(int n, char **a) {
    void *arguments[16];
    unsigned long long values[16];
    int count = 0;
    for (int k = 5; k < n; k++, count++) {
        if (a[k][0] == 'v') { values[count] = strtoull(a[k] + 2, nullptr, 0); }
        else if (a[k][0] == 'e') { void *p; cudaMalloc(&p, atoll(a[k] + 2)); values[count] = (unsigned long long)p; }
        else {
            FILE *f = fopen(a[k] + 2, "rb"); fseek(f, 0, SEEK_END); long bytes = ftell(f); rewind(f);
            std::vector<char> data(bytes); if (fread(data.data(), 1, bytes, f) != (size_t)bytes) return 3; fclose(f);
            void *p; cudaMalloc(&p, bytes); cudaMemcpy(p, data.data(), bytes, cudaMemcpyHostToDevice);
            values[count] = (unsigned long long)p;
        }
        arguments[count] = &values[count];
    }
    const void *kernel = nullptr;
    KERNELS
    if (!kernel) return 4;
    cudaLaunchKernel(kernel, dim3(atoi(a[2])), dim3(atoi(a[3])), arguments, atoi(a[4]), 0);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
"""


def launches(kernels: Path) -> ModuleType:
    """The table of launches beside the kernels."""
    specification = importlib.util.spec_from_file_location("planted", kernels.parent / "test_kernels.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules["planted"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def build(source: Path, folder: Path) -> Path:
    """A program that launches any kernel of a source."""
    text = source.read_text(encoding="utf-8")
    names = re.findall(r"^K\((\w+)\)", text, re.MULTILINE)
    chosen = "\n".join(f'if (!strcmp(a[1], "{name}")) kernel = (const void *){name};' for name in names)
    program = folder / f"{source.stem}.main.cu"
    program.write_text(text + MAIN.replace("KERNELS", chosen), encoding="utf-8")
    target = folder / source.stem
    subprocess.run(["nvcc", "-lineinfo", "-arch=native", "-std=c++17", str(program), "-o", str(target)], check=True)
    return target


def words(arguments: list[Any], folder: Path) -> list[str]:
    """The arguments as the program takes them."""
    found = []
    for number, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            found.append(f"v:{int(argument)}")
        elif type(argument) is not np.ndarray:  # gpuemu.empty
            found.append(f"e:{argument.nbytes}")
        else:
            file = folder / f"argument{number}"
            file.write_bytes(argument.tobytes())
            found.append(f"b:{file}")
    return found


def sanitizer(tool: str, command: list[str]) -> str:
    """What compute-sanitizer says: the first finding and how many there are, "-" for none."""
    more = ["--racecheck-report", "all"] if tool == "racecheck" else []
    line = ["compute-sanitizer", "--tool", tool, *more, *command]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    said = [s.removeprefix("=========").strip() for s in done.stdout.splitlines() if s.startswith("=========")]
    told = [s for s in said if re.search(r"Invalid|Misaligned|[Hh]azard|Barrier error|Uninitialized|Race reported", s)]
    return f"{told[0]} ({len(told)})" if told else "-"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="compute-sanitizer and gpuemu check on the same kernels")
    parser.add_argument("--kernels", type=Path, default=Path("tests/studies/check/kernels"))
    parser.add_argument("--only", default="", help="kernels whose names hold this")
    parser.add_argument("--jobs", type=int, default=8, help="so many at once, all on the one GPU")
    parser.add_argument("-o", "--output", type=Path, default=Path("sanitizer.md"))
    options = parser.parse_args()
    table = launches(options.kernels)
    rows = ["| kernel | tool | compute-sanitizer | gpuemu check |", "| --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {source.stem: build(source, folder) for source in sorted(options.kernels.glob("*.cu"))}
        asked = []
        for case_name, case in table.CASES.items():
            for kernel in (f"{case_name}_bad", f"{case_name}_good"):
                if options.only not in kernel:
                    continue
                own = folder / kernel
                own.mkdir()
                launch = [str(case.ctas), str(case.threads), str(case.shared_bytes), *words(case.args(), own)]
                ours = table.checked(case, kernel, "sm_90").findings
                asked += [(kernel, tool, ours, [str(programs[case.source]), kernel, *launch]) for tool in TOOLS]
        with ThreadPoolExecutor(options.jobs) as pool:
            answers = pool.map(lambda row: sanitizer(row[1], row[3]), asked)
            for (kernel, tool, ours, _), theirs in zip(asked, answers, strict=True):
                mine = [f"{f.severity.value}: {f.title}" for f in ours if f.tool == tool]
                if mine or theirs != "-":
                    rows.append(f"| {kernel} | {tool} | {theirs} | {mine[0] if mine else '-'} |")
                    print(rows[-1], flush=True)
    options.output.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
