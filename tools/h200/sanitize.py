"""Runs the kernels with planted faults under compute-sanitizer on a real GPU, beside what `gpuemu check` says of them.

    python tools/h200/sanitize.py prepare FOLDER        # where nvcc and gpuemu with its tests are
    python tools/h200/sanitize.py run FOLDER            # where a GPU and compute-sanitizer are; nothing else is needed

The launches are those of tests/studies/check/test_kernels.py. Each `.cu` is compiled once with a main() that launches
one kernel by name, with the arguments' bytes from files. FOLDER/plan.json has them, and what `gpuemu check` says;
FOLDER/sanitizer.md gets a row for each kernel and tool with what either said.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
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
PLAN_FILE, TABLE_FILE = "plan.json", "sanitizer.md"
TITLE = "# Beside compute-sanitizer, kernel by kernel"
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


def build(source: Path, folder: Path, arch: str) -> Path:
    """A program that launches any kernel of a source."""
    text = source.read_text(encoding="utf-8")
    names = re.findall(r"^K\((\w+)\)", text, re.MULTILINE)
    chosen = "\n".join(f'if (!strcmp(a[1], "{name}")) kernel = (const void *){name};' for name in names)
    target = folder / source.stem
    with tempfile.TemporaryDirectory() as own:  # nvcc hands the names of files to a shell
        program, made = Path(own) / "main.cu", Path(own) / "main"
        program.write_text(text + MAIN.replace("KERNELS", chosen), encoding="utf-8")
        subprocess.run(["nvcc", "-lineinfo", f"-arch={arch}", "-std=c++17", str(program), "-o", str(made)], check=True)
        shutil.copy(made, target)
    return target


def words(arguments: list[Any], folder: Path, kernel: str) -> list[str]:
    """The arguments as the program takes them; files lie in a folder of the kernel's name."""
    found = []
    for number, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            found.append(f"v:{int(argument)}")
        elif type(argument) is not np.ndarray:  # gpuemu.empty
            found.append(f"e:{argument.nbytes}")
        else:
            file = f"{kernel}/argument{number}"
            (folder / file).write_bytes(argument.tobytes())
            found.append(f"b:{file}")
    return found


def sanitizer(tool: str, folder: Path, command: list[str]) -> str:
    """What compute-sanitizer says: the first finding and how many there are, "-" for none."""
    more = ["--racecheck-report", "all"] if tool == "racecheck" else []
    line = ["compute-sanitizer", "--tool", tool, *more, *command]
    try:
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    said = [s.removeprefix("=========").strip() for s in done.stdout.splitlines() if s.startswith("=========")]
    said = [s for s in said if "SUMMARY" not in s]
    told = [s for s in said if re.search(r"Invalid|Misaligned|[Hh]azard|Barrier error|Uninitialized|Race reported", s)]
    return f"{told[0]} ({len(told)})" if told else "-"


def prepare(kernels: Path, folder: Path, arch: str, only: str) -> None:
    """Build the programs, write the arguments, and what gpuemu finds, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = launches(kernels)
    programs = {source.stem: build(source, folder, arch) for source in sorted(kernels.glob("*.cu"))}
    plan = []
    for case_name, case in table.CASES.items():
        for kernel in (f"{case_name}_bad", f"{case_name}_good"):
            if only in kernel:
                (folder / kernel).mkdir(exist_ok=True)
                launch = [kernel, str(case.ctas), str(case.threads), str(case.shared_bytes)]
                launch += words(case.args(), folder, kernel)
                found = table.checked(case, kernel, arch).findings
                said = {tool: [f"{f.severity.value}: {f.title}" for f in found if f.tool == tool] for tool in TOOLS}
                plan.append({"program": programs[case.source].name, "launch": launch, "gpuemu": said})
    (folder / PLAN_FILE).write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")


def run(folder: Path, jobs: int) -> None:
    """Run each program with each tool, and write the table."""
    plan = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
    asked = [(one, tool) for one in plan for tool in TOOLS]
    rows = [TITLE, "", "| kernel | tool | compute-sanitizer | gpuemu check |", "| --- | --- | --- | --- |"]
    with ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda row: sanitizer(row[1], folder, [f"./{row[0]['program']}", *row[0]["launch"]]), asked)
        for (one, tool), theirs in zip(asked, answers, strict=True):
            mine = one["gpuemu"][tool]
            if mine or theirs != "-":
                rows.append(f"| {one['launch'][0]} | {tool} | {theirs} | {mine[0] if mine else '-'} |")
                print(rows[-1], flush=True)
    (folder / TABLE_FILE).write_text("\n".join(rows) + "\n", encoding="utf-8")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="compute-sanitizer and gpuemu check on the same kernels")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="build the programs, and ask gpuemu")
    first.add_argument("--kernels", type=Path, default=Path("tests/studies/check/kernels"))
    first.add_argument("--arch", default="sm_90", help="of the GPU")
    first.add_argument("--only", default="", help="kernels whose names hold this")
    second = commands.add_parser("run", help="ask compute-sanitizer, and write the table")
    second.add_argument("--jobs", type=int, default=8, help="so many at once, all on the one GPU")
    for command in (first, second):
        command.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.kernels, options.folder, options.arch, options.only)
    else:
        run(options.folder, options.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
