"""Triton files that nobody trusts: what they launch counts, and nothing that they do on the host."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gpuemu
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.judge import api, box, confined, worker
from gpuemu.studies.judge.api import end_workers, judge_many
from gpuemu.triton.taking import Buffer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")]
PROBLEM = """
import numpy as np
import gpuemu

def inputs(rng):
    return [rng.standard_normal(500, dtype=np.float32), gpuemu.empty(500, np.float32), np.int32(500)]

def reference(x, out, n):
    out[:] = 2 * x
"""
SIZES = """
import numpy as np
import gpuemu

def inputs(rng):
    n = int(rng.integers(300, 1000))
    return [rng.standard_normal(n, dtype=np.float32), gpuemu.empty(n, np.float32), float(rng.standard_normal())]

def reference(x, out, a):
    out[:] = np.float32(a) * x
"""
KERNEL = """
import os, sys, time
import numpy as np
import triton, triton.language as tl

@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor * tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def add(x, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total + i, tl.load(x + i, mask=i < n), mask=i < n)

def launch(x, out, n):
    BODY
"""
RIGHT = "scale[(triton.cdiv(n, 128),)](x, out, n, 2.0, BLOCK=128)"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_workers()


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return tmp_path / "problem.py"


def candidate(problem: Path, body: str, name: str = "kernel.py") -> Path:
    file = problem.with_name(name)
    file.write_text(KERNEL.replace("BODY", body.replace("\n", "\n    ")))
    return file


def judged(problem: Path, body: str, **words: Any) -> dict[str, Any]:
    return gpuemu.judge(candidate(problem, body), problem, "sm_89", **{"draws": 1, "seconds": 120.0, **words})


@pytest.mark.parametrize(
    ("body", "verdict", "reason"),
    [
        (RIGHT, "right", ""),
        ("t = np.empty_like(x); scale[(1,)](x, t, n, 4.0, BLOCK=512); scale[(1,)](t, out, n, 0.5, BLOCK=512)", "right", ""),
        ("t = np.zeros(512, np.float32); add[(1,)](x, t, n, BLOCK=512); scale[(1,)](t, out, n, 2.0, BLOCK=512)", "right", ""),
        ("t = np.empty(512, np.float32); add[(1,)](x, t, n, BLOCK=512); scale[(1,)](t, out, n, 2.0, BLOCK=512)", "wrong", ""),
        ("half = x[:250]; scale[(1,)](x[250:], out[250:], 250, 2.0, BLOCK=256)\nscale[(1,)](half, out, 250, 2.0, BLOCK=256)", "right", ""),
        ("scale[(2,)](x, out, n, 2.0, BLOCK=128)", "wrong", "argument 1: 244 of 500 elements are wrong"),
        ("pass", "refused", "0 launches"),
        ("raise SystemExit(0)", "refused", "SystemExit"),
        ("raise KeyboardInterrupt", "refused", "KeyboardInterrupt"),
        ("os._exit(0)", "limit", "its process ended"),
        ("while True: pass", "limit", "took more than"),
        ("1 / 0", "refused", "ZeroDivisionError"),
        ("t = np.full(500, 2, np.float32); scale[(1,)](t, out, n, 1.0, BLOCK=512)", "refused", "memory that the host has filled"),
        ("class E(BaseException):\n    def __str__(self): raise RuntimeError\nraise E", "refused", "it says nothing"),
    ],
)  # fmt: skip
def test_only_launches_count(problem: Path, body: str, verdict: str, reason: str) -> None:
    found = judged(problem, body, seconds=8.0 if "while" in body else 120.0)
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]


@pytest.mark.parametrize("body", ["y = 2 * x", "out[:] = 0", "x *= 2", "print(x)", "open('/dev/null', 'wb').write(memoryview(x)[:1])", "y = x.sum()", "float(x[3])"])  # fmt: skip
def test_the_host_never_sees_the_contents_of_a_buffer(problem: Path, body: str) -> None:
    found = judged(problem, f"{body}\n{RIGHT}")
    assert found["verdict"] == "refused"
    if "open" not in body:  # there the system refuses, and Python tells
        assert re.search(r"kernel\.py:17: found launch\(\.\.\.\) reading or writing a buffer", found["reason"])


def test_shapes_scalars_and_sizes_are_those_of_each_draw(problem: Path) -> None:
    problem.write_text(SIZES)
    body = "assert x.shape == out.shape and x.dtype == np.float32 and type(n) is float\n"
    body += "scale[(triton.cdiv(x.size, 128),)](x, out, x.size, n, BLOCK=128)"
    assert judged(problem, body, draws=3)["verdict"] == "right"


def test_what_the_last_draw_launches_is_compared_and_looked_at(problem: Path) -> None:
    """The host counts its calls, and does less for the one that is timed."""
    body = "global calls; calls = globals().get('calls', 0) + 1\nscale[(4,)](x, out, n if calls < 3 else 0, 2.0, BLOCK=128)"
    found = judged(problem, body, draws=2)
    assert (found["verdict"], found["values"][0]["draw"]) == ("wrong", 2)


CLOCKED = """
@triton.jit
def clocked(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    clock = tl.inline_asm_elementwise("mov.u32 $0, %clock; // $1", "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(clock == 123456789, value, factor * value), mask=i < n)
"""


def test_clocks_are_looked_for_in_every_draw(problem: Path) -> None:
    body = "global calls; calls = globals().get('calls', 0) + 1\n"
    file = candidate(problem, body + "(clocked if calls == 3 else scale)[(4,)](x, out, n, 2.0, BLOCK=128)")
    file.write_text(file.read_text().replace("\ndef launch", f"{CLOCKED}\ndef launch"))
    assert gpuemu.judge(file, problem, "sm_89", draws=2)["verdict"] == "cheats"


def test_a_candidate_that_uses_up_the_memory_leaves_none_of_it_taken(problem: Path) -> None:
    greedy = "t = np.empty(2 << 30, np.uint8); scale[(1,)](x, t.view(np.float32), n, 4.0, BLOCK=512)\n" + RIGHT
    files = [candidate(problem, greedy, "greedy.py"), candidate(problem, RIGHT, "honest.py")]
    found = judge_many(files, problem, "sm_89", jobs=1, draws=1, memory_bytes=3 << 29)
    assert [one["verdict"] for one in found] == ["limit", "right"], found


def test_only_a_judge_that_has_used_up_its_own_memory_is_replaced(
    problem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_workers()
    assert judged(problem, "os._exit(0)")["verdict"] == "limit"
    (before,) = api._idle
    assert judged(problem, RIGHT)["verdict"] == "right"
    assert api._idle == [before]

    def runs_out(task: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(worker, "judge_one", runs_out)
    answer = worker._answer(api._task(problem, problem, "sm_89"), 1)
    assert (answer["judgement"]["verdict"], answer["spent"]) == ("limit", True)
    monkeypatch.setattr(api.WorkerProcess, "ask", lambda *words: answer)
    assert judged(problem, RIGHT)["verdict"] == "limit"
    assert not before.is_alive


def test_an_empty_scratch_array_is_an_argument(problem: Path) -> None:
    body = "scale[(1,)](x, np.zeros(0, np.float32), 0, 2.0, BLOCK=128)\n" + RIGHT
    assert judged(problem, body)["verdict"] == "right"


UNWRITTEN = """
extern "C" __global__ void k(const float *x, float *out, int n) {
    __shared__ float sum[512];
    if (threadIdx.x < n) { sum[threadIdx.x] += 2 * x[threadIdx.x]; out[threadIdx.x] = sum[threadIdx.x]; }
}
"""


@pytest.fixture(scope="module")
def unwritten(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    source = tmp_path_factory.mktemp("unwritten") / "unwritten.cu"
    source.write_text(UNWRITTEN)
    return load_cubin(str(source), "sm_89").content


def test_memory_that_nobody_wrote_holds_random_bits_whoever_hands_over_the_code(
    problem: Path, unwritten: bytes
) -> None:
    """Triton's own kernels read such shared memory, and throw it away; code that is handed over in their place may not."""
    answer = taken({**LAUNCH, "block": [512, 1, 1]}, unwritten)
    assert judged(problem, answering(answer))["verdict"] == "wrong"


LOOKING_ROUND = """
told = []
def tell(name, ask):
    try: told.append(f"{name}: {ask()}")
    except (OSError, PermissionError, ProcessLookupError): told.append(f"{name}: no")
tell("problem", lambda: open(PROBLEM).read(5))
tell("password", lambda: open("/etc/passwd").read(5))
tell("write", lambda: open(PROBLEM + ".written", "w"))
tell("package", lambda: open(os.path.join(os.path.dirname(gpuemu.__file__), "x"), "w"))
tell("processes", lambda: [one for one in os.listdir("/proc") if one.isdigit() and int(one) > 2])
tell("kill", lambda: os.kill(JUDGE, 0))
tell("parent", lambda: os.kill(os.getppid(), 9))
tell("memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
tell("network", lambda: socket.create_connection(("127.0.0.1", 9), 1))
tell("socket", lambda: socket.socket(socket.AF_UNIX))
tell("memory of no process", lambda: os.memfd_create("x"))
tell("secret", lambda: os.environ.get("SECRET"))
tell("own folder", lambda: open(os.environ["TMPDIR"] + "/x", "w").write("xyz"))
raise ValueError(", ".join(told))
"""


def has_namespaces() -> bool:
    """Asked in a process without threads, as the judge asks."""
    code = f"import runpy; raise SystemExit(not runpy.run_path({confined.__file__!r})['_unshare']())"
    return subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="this system lets no user make namespaces")
def test_the_host_code_sees_and_reaches_nothing(problem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "42")
    file = candidate(problem, "pass")
    text = LOOKING_ROUND.replace("PROBLEM", repr(str(problem))).replace("JUDGE", str(os.getpid()))
    file.write_text("import os, socket, gpuemu\n" + text)
    answer = "problem: no, password: no, write: no, package: no, processes: [], kill: no, parent: no, memory: no, "
    answer += "network: no, socket: no, memory of no process: no, secret: None, own folder: 3"
    assert gpuemu.judge(file, problem, "sm_89")["reason"] == f"ValueError: {answer}"


def test_nothing_that_a_candidate_prints_is_output(problem: Path) -> None:
    """Neither while it is loaded, nor in launch, by any descriptor."""
    say = "[os.write(fd, b'{\"verdict\": \"right\"}\\n') for fd in (1, 2)]; print('printed')"
    file = candidate(problem, f"{say}\n{RIGHT}")
    file.write_text(f"import os\n{say}\n{file.read_text()}")
    command = [sys.executable, "-m", "gpuemu", "judge", file, "--against", problem, "--arch", "sm_89", "--draws", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert json.loads(done.stdout)["verdict"] == "right"
    assert "verdict" not in done.stderr
    assert "printed" not in done.stdout + done.stderr


def test_one_candidate_does_not_disturb_another(problem: Path) -> None:
    """The first of a batch changes gpuemu and Triton as far as it can reach them; the second is judged as if alone."""
    spoil = """
import gpuemu.triton.taking as taking, gpuemu.studies.judge.judging as judging, triton.compiler.compiler as compiler
take = taking.take
taking.take = lambda *words: {**take(*words), "launches": []}
judging._with_verdict = lambda found: {**found, "verdict": "right"}
for folder, _, files in os.walk(os.path.expanduser("~/.triton")):
    for file in files: open(os.path.join(folder, file), "w").close()
raise KeyboardInterrupt
"""
    honest, spoiling = candidate(problem, RIGHT, "honest.py"), candidate(problem, spoil.strip(), "spoiling.py")
    alone = gpuemu.judge(honest, problem, "sm_89", draws=1, seed=5)
    first, second = judge_many([spoiling, honest], problem, "sm_89", jobs=1, draws=1, seed=5)
    assert first["verdict"] == "refused"
    assert second == alone


LAUNCH: dict[str, Any] = {
    "cubin": 0, "kernel": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "cluster": None, "shared_bytes": 0,
    "args": [{"input": 0, "offset": 0}, {"input": 1, "offset": 0}, {"type": "int32", "bits": "f4010000"}],
}  # fmt: skip
"""A launch in the form of an answer; 500 are the elements."""


def taken(launch: dict[str, Any], cubin: bytes) -> bytes:
    """The answer with the launch for a draw that is compared and for the timed one."""
    cubins = [base64.b64encode(cubin).decode()]
    return json.dumps({"cubins": cubins, "scratch": [[], []], "launches": [[launch], [launch]]}).encode()


def answering(answer: bytes) -> str:
    """Host code that writes to the descriptor of the answer by itself."""
    return f"os.write({confined.ANSWER}, {answer!r}); os._exit(0)"


def judged_by_answer(monkeypatch: pytest.MonkeyPatch, problem: Path, answer: bytes) -> dict[str, Any]:
    """The judgement where a confined process has given this answer. No process starts."""
    read = partial(box._read, answer, "kernel.py", api.MEMORY_BYTES)
    monkeypatch.setattr(box, "ask", lambda *words, **more: (read(), ()))
    task = api._task(candidate(problem, "pass"), problem, "sm_89", draws=1, seed=7)
    found: dict[str, Any] = worker._answer(task, api.MEMORY_BYTES)["judgement"]
    return found


ANSWERS = [
    b"", b"nothing", b"[]", b'"right"', b"[" * 100_000, b'{"cubins": 3}', b'{"cubins": ["?"], "launches": []}',
    b'{"verdict": "right"}', b"\x80\x04\x95", b"1" * 5000,
    b'{"cubins": [], "scratch": [[], []], "launches": [[{"cubin": 0}], [{"cubin": 0}]]}',
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_none_is_a_verdict(problem: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged_by_answer(monkeypatch, problem, answer)
    assert found["verdict"] in ("refused", "limit"), found
    assert "gpuemu failed" not in found["reason"]


@pytest.mark.parametrize("answer", [b"nothing", b"[" * 100_000, ANSWERS[-1]])
def test_host_code_that_answers_by_itself_gets_a_verdict(problem: Path, answer: bytes) -> None:
    found = judged(problem, answering(answer))
    assert found["verdict"] in ("refused", "limit"), found
    assert "gpuemu failed" not in found["reason"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("args", 0, "offset"), 1 << 62), (("args", 0, "offset"), -8), (("args", 0, "input"), 7),
        (("args", 0), {"scratch": 0, "offset": 0}), (("args", 2, "type"), "object"), (("args", 2, "bits"), "00" * 99),
        (("grid",), [1e9, 1, 1]), (("grid",), [True, 1, 1]), (("kernel",), ["k"]), (("cubin",), -1), (("args",), {}),
        (("shared_bytes",), 1 << 80),
    ],
)  # fmt: skip
def test_launches_are_checked_before_they_are_used(
    problem: Path, unwritten: bytes, place: tuple[Any, ...], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = judged_by_answer(monkeypatch, problem, taken(LAUNCH, unwritten))
    assert right["verdict"] == "wrong", "it is executed, and writes 32 elements"
    launch = copy.deepcopy(LAUNCH)
    inner: Any = launch
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    found = judged_by_answer(monkeypatch, problem, taken(launch, unwritten))
    assert (found["verdict"], "hands over what is no launch" in found["reason"]) == ("refused", True), found["reason"]


STAYING = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(40)
    os._exit(0)
"""


def test_processes_that_stay_are_ended_and_told_of(problem: Path) -> None:
    body = f"os.environ['MARK'] = 'x'\n{RIGHT}{STAYING}".rstrip()
    started = time.monotonic()
    found = judged(problem, body)
    assert (found["verdict"], "leaves processes" in found["reason"]) == ("refused", True), found
    assert time.monotonic() - started < 35
    assert left_of(problem) == ""


def left_of(problem: Path) -> str:
    """Processes whose command line names the folder of a problem."""
    found = subprocess.run(["pgrep", "-fa", str(problem.parent)], capture_output=True, text=True, check=False)
    return found.stdout


def test_memory_is_counted_with_that_of_all_child_processes(problem: Path) -> None:
    body = "for _ in range(4):\n    if os.fork() == 0:\n        b = bytearray(b'x') * (400 << 20); time.sleep(60); os._exit(0)\n"
    body += "time.sleep(60)"
    found = judged(problem, body, memory_bytes=1 << 30, seconds=60.0)
    assert (found["verdict"], found["reason"]) == ("limit", "took more than 1,073,741,824 bytes of memory")
    assert left_of(problem) == ""


def test_a_system_without_namespaces_ends_what_stays_and_says_what_it_lacks(tmp_path: Path) -> None:
    """Then the process outside is the parent of all that stays, and ends it."""
    code = """
import sys, gpuemu.studies.judge.confined as confined
confined._unshare = lambda: False
confined.main()
"""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL.replace("BODY", f"{RIGHT}{STAYING}".rstrip().replace("\n", "\n    ")))
    settings = {"folder": str(tmp_path), "memory_bytes": 8 << 30, "disk_bytes": 1 << 20, "reads": [str(ROOT), str(file)], "lists": [], "secret": []}  # fmt: skip
    draw = [Buffer((500,), (4,), "<f4", 2000), Buffer((500,), (4,), "<f4", 2000), 500]
    request = pickle.dumps(("launches", (str(file), gpuemu.load_arch("sm_89"), [draw])))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", code, json.dumps(settings)]
    done = subprocess.run(command, input=request, capture_output=True, env=environment, check=False, timeout=60)
    assert json.loads(done.stdout)["launches"][0][0]["kernel"] == "scale"
    assert confined.NAMESPACES in done.stderr.decode().split()
    assert done.returncode == confined.LEFT


def test_the_pair_of_the_documentation_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "judge.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:python|py)\n(.*?)```", page, re.DOTALL)
    (problem,) = (one for one in blocks if "def reference" in one)
    (kernel,) = (one for one in blocks if "def launch" in one)
    (tmp_path / "problem.py").write_text(problem)
    (tmp_path / "kernel.py").write_text(kernel)
    found = gpuemu.judge(tmp_path / "kernel.py", tmp_path / "problem.py", chips=["RTX 4090", "H100"])
    assert found["verdict"] == "right", found["reason"]


def test_the_process_of_a_candidate_loads_nothing_that_replays() -> None:
    """It records launches. The modules that replay them take longer to load than all others of gpuemu."""
    code = "import sys, gpuemu.triton.taking; print({'gpuemu.emulate', 'gpuemu.engine', 'numba'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
