"""NVIDIA's cuda-samples with `gpuemu exec`: which programs run to their end, and whether their own checks pass.

    python -m validation samples SOURCES
    python -m validation samples SOURCES --only vectorAdd,scan --seconds 400

The suite takes each sample that needs no graphics, no library besides CUDA's runtime and driver, and no textures. It
builds the sources that the sample's CMakeLists.txt names with plain nvcc for sm_90, and runs one program after another
on an emulated H200. Some programs have sizes as arguments, which are small ones here (`ARGUMENTS`).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from gpuemu.programs.build import library_folder

ARGUMENTS = {
    "FDTD3d": "--dimx=64 --dimy=64 --dimz=64 --timesteps=2",
    "SobolQRNG": "--vectors=2000 --dimensions=20",
    "cudaGraphsPerfScaling": "0 1 20 1 0 1 20",
    "globalToShmemAsyncCopy": "-wA=128 -hA=128 -wB=128 -hB=128",
    "interval": "-n=1",
    "matrixMul": "-wA=128 -hA=128 -wB=128 -hB=128",
    "radixSortThrust": "-n=2000 -iterations=2",
    "reduction": "--n=65536",
    "reductionMultiBlockCG": "--n=65536",
    "simpleHyperQ": "--nstreams=2",
    "threadFenceReduction": "--n=65536",
    "transpose": "-dimX=128 -dimY=128",
}
"""Arguments for small problems."""

_FOREIGN = re.compile(
    r"OpenGL|GLUT|GLEW|Vulkan|EGL|NvSci|NVSCI|FreeImage|OpenMP|\bMPI\b|D3D|CUDA::(?!cudart\b|cuda_driver\b)\w+|NVJITLINK|NVVM_LIB"
)
"""Names in a CMakeLists.txt of graphics, and of libraries besides the runtime and the driver."""
_TEXTURES = re.compile(r"\b(tex[123]D\w*|cudaTextureObject_t|surf[123]D\w+|cuTexRef\w+|curand_kernel\.h|curand\.h)\b")
_SEVERAL_DEVICES = re.compile(r"GPU|P2P|IPC|p2p|topology|Ipc")
_PASSED = re.compile(
    r"\b(pass(ed|es)?|success(ful|fully)?|test succeeded|ok|match|no errors?)\b|within tolerance|Result = (PASS|1)",
    re.I,
)
_FAILED = re.compile(r"\b(fail(ed|ure)?(?! as expected)|incorrect|mismatch|wrong)\b", re.I)
_IN_EXIT_CODE = re.compile(r"\? *(EXIT_SUCCESS *: *EXIT_FAILURE|EXIT_FAILURE *: *EXIT_SUCCESS|0 *: *1)\b")
"""A program with this compares its results, and has the outcome in its exit code."""
_WAIVED = 2
_SOURCE = (".cu", ".cpp", ".c")


@dataclass(frozen=True)
class Sample:
    """A program of the samples: its folder, and the files that its CMakeLists.txt compiles."""

    name: str
    folder: Path
    sources: tuple[str, ...]
    kernels: tuple[str, ...]
    code: str = field(repr=False)
    """The text of all its sources."""

    @property
    def arguments(self) -> list[str]:
        return ARGUMENTS.get(self.name, "").split()


@dataclass(frozen=True)
class Outcome:
    """How a program ended: `verdict` is one of VERDICTS."""

    verdict: str
    reason: str
    seconds: float
    """The processor time of the program and gpuemu."""


VERDICTS = ("passes", "runs, no own check", "waived", "own check fails", "refused", "no end", "not built")


def samples(checkout: Path) -> list[Sample]:
    """The samples that the suite takes, sorted by folder."""
    found = []
    for file in sorted(checkout.glob("Samples/[0-6]*/*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", file.read_text(encoding="utf-8"))
        made = re.search(r"add_executable\(\s*(\S+)([^)]*)\)", text)
        code = "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(file.parent.rglob("*"))
            if path.suffix in (*_SOURCE, ".cuh", ".h", ".hpp", ".inl")
        )
        if made is None or _FOREIGN.search(text) or _TEXTURES.search(code) or _SEVERAL_DEVICES.search(made[1]):
            continue
        sources = tuple(one for one in made[2].split() if one.endswith(_SOURCE))
        kernels = tuple(path.name for path in sorted(file.parent.glob("*_kernel.cu")) if path.name not in sources)
        found.append(Sample(made[1], file.parent, sources, kernels, code))
    return found


def build(sample: Sample, checkout: Path, to: Path) -> str:
    """Build a program and the fat binaries of kernels that it loads. Returns nvcc's error, or an empty text."""
    includes = [f"-I{checkout / 'Common'}", f"-I{sample.folder}", f"-I{sample.folder / 'inc'}"]
    plain = ["nvcc", "-std=c++17", "-arch=sm_90", "-lineinfo", "-w", *includes]
    loaded = [(one, form) for one in sample.kernels for form in ("fatbin", "ptx")]
    steps = [
        *([*plain, f"-{form}", "-o", str(to / f"{Path(one).stem}64.{form}"), one] for one, form in loaded),
        [*plain, "-O3", "--extended-lambda", "-rdc=true", "-o", str(to / sample.name), *sample.sources,
         f"-L{library_folder()}", "-l:libcuda.so.1", "-ldl", "-lpthread"],
    ]  # fmt: skip
    for step in steps:
        done = subprocess.run(step, cwd=sample.folder, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["nvcc fails"])[-1]
    return ""


def run(sample: Sample, folder: Path, seconds: int, chip: str) -> Outcome:
    """Run a built program with a limit of processor time. Returns how it ended."""
    for one in sample.folder.rglob("*"):  # data files lie beside the program
        there = folder / one.relative_to(sample.folder)
        if one.is_dir():
            there.mkdir(exist_ok=True)
        elif not there.exists():
            there.symlink_to(one)
    command = [sys.executable, "-m", "gpuemu", "exec", "--chip", chip, "--", f"./{sample.name}", *sample.arguments]
    with (folder / "out.txt").open("w+b") as out, (folder / "err.txt").open("w+b") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        )  # fmt: skip
        watch = threading.Timer(4 * seconds, os.killpg, (process.pid, signal.SIGKILL))
        watch.start()
        _, status, used = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        printed, told = (file.read().decode(errors="replace") for file in (out, err))
    took = used.ru_utime + used.ru_stime
    return Outcome(*_verdict(sample, process.returncode, printed, told), took)


def _verdict(sample: Sample, code: int, printed: str, told: str) -> tuple[str, str]:
    errors = [line for line in told.splitlines() if re.match(r"(error|gpuemu): ", line)]
    if code < 0 or code in (128 + signal.SIGKILL, 128 + signal.SIGXCPU):
        return "no end", (told.splitlines() or [""])[-1]
    if code == _WAIVED:
        return ("refused", errors[-1]) if errors else ("waived", (printed.splitlines() or [""])[-1])
    text = printed + "\n".join(line for line in told.splitlines() if not line.startswith(" "))
    if code or _FAILED.search(printed):
        return "own check fails", f"exit code {code}; {(errors or printed.splitlines() or [''])[-1]}"
    return ("passes" if _PASSED.search(text) or _IN_EXIT_CODE.search(sample.code) else "runs, no own check"), ""


def main(options: argparse.Namespace) -> int:
    """Run the chosen samples, one after another, and print a line for each and the counts."""
    checkout, built = options.sources.resolve(), options.build
    chosen = [s for s in samples(checkout) if not options.only or s.name in options.only.split(",")]
    counts = dict.fromkeys(VERDICTS, 0)
    for sample in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if built is None else built.resolve() / sample.name
            folder.mkdir(parents=True, exist_ok=True)
            wrong = "" if (folder / sample.name).exists() else build(sample, checkout, folder)
            outcome = Outcome("not built", wrong, 0.0) if wrong else run(sample, folder, options.seconds, options.chip)
        counts[outcome.verdict] += 1
        print(f"{sample.name:28} {outcome.verdict:20} {outcome.seconds:5.0f} s  {outcome.reason[:150]}", flush=True)
    print(f"{len(chosen)} programs: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count))
    return 0
