"""Ctrl-C ends a command with one line, and nothing of it is left five seconds later, whatever it was doing.

Each command is interrupted at moments that differ and are the same each time. GPUEMU_INTERRUPTS=40 takes 40 in all.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu.cli import interrupts

pytestmark = pytest.mark.slow

psutil = pytest.importorskip("psutil")
if not hasattr(os, "killpg"):
    pytest.skip("process groups are a Unix matter", allow_module_level=True)

KERNEL = """
extern "C" __global__ void loop(float *out) {
    float x = threadIdx.x;
    #pragma unroll 1
    for (int i = 0; i < ROUNDS; i++) x = x * 1.5f + out[threadIdx.x & 31];
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""
PROBLEM = """
import numpy as np
grid, block = 4, 256
def inputs(rng): return [np.zeros(1024, np.float32)]
def reference(out): pass
"""
LAUNCH = ("--grid", "4", "--block", "256", "--arg", "zeros:f32:1024")
POOLS = "mio.store_pool_wavefronts=" + ",".join(map(str, range(100, 161)))
BANKS = ("--vary", "shared_memory.banks=16,32,64,8", "--vary", "shared_memory.bank_width_bytes=4,8", "--vary", POOLS)
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "loop.cu", *LAUNCH, "-D", "ROUNDS=40000", "--engine", "simpy"),
    "check": ("check", "loop.cu", *LAUNCH, "-D", "ROUNDS=150000"),
    "why": ("why", "gemm_nn_plain", "--jobs", "2"),
    "sweep": ("sweep", "gemm_nn_plain", *BANKS, "--store", "points.sqlite", "-o", "points.csv", "--jobs", "2"),
    "sweep on dask": ("sweep", "gemm_nn_plain", *BANKS, "--no-store", "--cluster", "local:2"),
    "rank": ("rank", "loop.cu", "--vary", "ROUNDS=6000,8000,10000,12000", *LAUNCH, "--chip", "H100", "--jobs", "2"),
    "search": ("search", "--arch", "sm_90", "--tile", "256x256:f16", "--access", "copy-in", "--access", "4*ldmatrix.x4",
               "--access", "store", "--access", "column", "--access", "copy-out", "--access", "column-store", "--jobs", "2"),
    "judge": ("judge", "loop.cu", "again.cu", "--against", "problem.py", "--chip", "H100", "--jobs", "2",
              "-D", "ROUNDS=100000"),
}  # fmt: skip
"""Each takes five seconds or more on an idle machine, and those with --jobs or --cluster start processes."""
MOMENTS = int(os.environ.get("GPUEMU_INTERRUPTS") or 2 * len(COMMANDS))
CASES = [(list(COMMANDS)[n % len(COMMANDS)], n // len(COMMANDS)) for n in range(MOMENTS)]
LEFT_S = 5.0


def alive(session: int, folder: Path) -> list[str]:
    """The command lines of all processes of a session, or with temporary files in a folder, that still run."""
    found = []
    for one in psutil.process_iter():
        try:
            inside = os.getsid(one.pid) == session or one.environ().get("TMPDIR", "").startswith(str(folder))
            if inside and one.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(one.cmdline()))
        except (OSError, psutil.Error):
            pass
    return found


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)  # each look goes through all processes of the machine
    return True


def has_begun(running: subprocess.Popen[bytes], _: Path) -> bool:
    """Whether Ctrl-C is the program's to answer: before that, it is Python's."""
    try:
        return running.poll() is not None or psutil.Process(running.pid).num_threads() > 1
    except psutil.Error:
        return True


def has_workers(running: subprocess.Popen[bytes], folder: Path) -> bool:
    names = ("popen_loky", "spawn_main", "judge.worker")
    return running.poll() is not None or any(name in one for one in alive(running.pid, folder) for name in names)


def _as_in_a_terminal() -> None:
    """A shell without job control lets what runs in its background ignore Ctrl-C, these tests for instance."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_ctrl_c_ends_it_with_one_line_and_leaves_no_process(name: str, number: int, tmp_path: Path) -> None:
    for file in ("loop.cu", "again.cu"):
        (tmp_path / file).write_text(KERNEL)
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "tmp").mkdir()
    chance = random.Random(f"{name} {number}")
    after_workers = number % 2 == 1 and not {"--jobs", "--cluster"}.isdisjoint(COMMANDS[name])
    delay = chance.uniform(0.0, 1.0)
    with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
        running = subprocess.Popen(
            [sys.executable, "-m", "gpuemu", *COMMANDS[name]], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out,
            stderr=err, start_new_session=True, preexec_fn=_as_in_a_terminal,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        )  # fmt: skip
    try:
        assert wait_for(lambda: (has_workers if after_workers else has_begun)(running, tmp_path), 120)
        time.sleep(delay)
        assert running.poll() is None, "it ended before it was interrupted"
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
        ended = wait_for(lambda: running.poll() is not None and not alive(running.pid, tmp_path), LEFT_S)
        left = alive(running.pid, tmp_path)
    finally:
        if alive(running.pid, tmp_path):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    said = (tmp_path / "err").read_text()
    assert (ended, left) == (True, [])
    assert running.returncode == 130
    assert re.fullmatch(r"interrupted\b.*\n", said), said


BEGIN = """
import hashlib, signal, sys, time
from gpuemu.cli import interrupts
interrupts.GRACE_S = 1.0
interrupts.answer()
"""
SITUATIONS: dict[str, tuple[str, int, str, str]] = {
    "before it begins": ("ready(); time.sleep(60)", 130, "", "interrupted\n"),
    "while it waits": ("with interrupts.running(): ready(); time.sleep(60)", 130, "", "interrupted\n"),
    "deep in C": (
        "with interrupts.running(): ready(); hashlib.pbkdf2_hmac('sha256', b'', b'', 1 << 30)", 130, "",
        "interrupted\n",
    ),
    "where nobody listens": (
        "with interrupts.running():\n ready()\n while True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: pass",
        130, "", "interrupted\n",
    ),
    "while it tidies up": (
        "with interrupts.running():\n try: ready(); time.sleep(60)\n finally: time.sleep(0.5); print('tidy')", 130,
        "tidy\n", "interrupted\n",
    ),
    "with a line of its own": (
        "with interrupts.running():\n try: ready(); time.sleep(60)\n"
        " except KeyboardInterrupt: print('interrupted: 3 of 4', file=sys.stderr); sys.exit(130)",
        130, "", "interrupted: 3 of 4\n",
    ),
    "within exec": ("with interrupts.running(): exec('ready(); time.sleep(60)')", 130, "", "interrupted\n"),
    "when it has ended": ("with interrupts.running(): pass\nready(); time.sleep(0.5)", 0, "", ""),
    "when it has ended and does not go": ("with interrupts.running(): pass\nready(); time.sleep(60)", 130, "", ""),
    "a script that saves": (
        "with interrupts.running(), interrupts.left_to_a_script():\n try: ready(); time.sleep(60)\n"
        " except KeyboardInterrupt: time.sleep(interrupts.GRACE_S + 0.5); print('saved')",
        0, "saved\n", "",
    ),
}  # fmt: skip


def signalled(code: str, times: int, before: Callable[[], None] = _as_in_a_terminal) -> tuple[int, str, str, float]:
    """Exit code, both outputs and the seconds that it takes from the first of some SIGINTs on."""
    ready = "def ready(): print('ready', flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + ready + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=before,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        started = time.monotonic()
        for _ in range(times):
            time.sleep(0.1)
            running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    return running.returncode, out, err, time.monotonic() - started


@pytest.mark.parametrize("situation", SITUATIONS)
def test_ctrl_c_is_answered_in_every_situation(situation: str) -> None:
    code, *wanted = SITUATIONS[situation]
    *found, seconds = signalled(code, 1)
    assert found == wanted
    assert seconds < LEFT_S
    assert interrupts.GRACE_S < LEFT_S - 0.5, "a worker looks for its parent twice a second"


@pytest.mark.parametrize("situation", ["while it waits", "while it tidies up", "with a line of its own"])
def test_a_second_one_changes_nothing(situation: str) -> None:
    code, *wanted = SITUATIONS[situation]
    *found, _ = signalled(code, 2)
    assert found == wanted


def test_what_python_drops_while_it_frees_an_object_is_raised_again() -> None:
    code = """
interrupts.GRACE_S = 30.0
class Slow:
    def __del__(self):
        ready()
        time.sleep(60)
with interrupts.running():
    Slow()
    time.sleep(60)
"""
    *found, seconds = signalled(code, 1)
    assert found == [130, "", "interrupted\n"]
    assert seconds < 20.0, "the watching thread ended it"


def test_where_it_is_ignored_it_stays_ignored() -> None:
    code = "with interrupts.running(): ready(); time.sleep(1)"
    *found, _ = signalled(code, 1, lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None)
    assert found == [0, "", ""]


def test_a_command_that_ends_while_it_tidies_up_says_nothing_of_its_locks() -> None:
    code = """
from gpuemu.studies.elsewhere import _Processes
with interrupts.running():
    place = _Processes(b"", 1)
    try:
        ready()
        time.sleep(60)
    finally:
        time.sleep(60)
"""
    *found, _ = signalled(code, 1)
    assert found == [130, "", "interrupted\n"]
