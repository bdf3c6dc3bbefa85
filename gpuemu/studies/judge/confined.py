"""A process for untrusted code: run as a script, before anything but the standard library is imported.

    python -P confined.py SETTINGS     # the request on standard input, the answer on standard output

There are three processes. This one waits outside. The first process of a PID namespace waits inside. The last one
answers the request with `gpuemu.studies.judge.inside`. When the middle one ends, the system ends everything that was
started inside.

On Linux, the last process sees no other process, opens no socket, holds no capability, and can neither trace nor signal
processes outside (user, PID, mount, network and IPC namespaces; Landlock; seccomp). It reads only Python, compilers and
the files that SETTINGS names, and writes only below its own folder. Missing abilities of the system are written to
standard error, one word per line. On every system, the process has its own session, /dev/null for its standard streams,
and a memory limit.

Sources: user_namespaces(7), pid_namespaces(7), landlock(7), seccomp(2), capabilities(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ANSWER = 3
"""The descriptor for the answer; at the start it is standard output."""
NAMESPACES, LANDLOCK = "namespaces", "landlock"
"""The abilities that a system may lack to confine a process."""
NO_ANSWER, LEFT = 1, 3
"""Exit codes: there is no answer; there is one, and started processes were left."""
_ENDING_S = 0.5
"""The seconds that started processes have to end by themselves."""
_KNOWN = 65534
"""The user inside: nobody."""
_CLONE = {"user": 0x10000000, "pid": 0x20000000, "mount": 0x00020000, "network": 0x40000000, "ipc": 0x08000000}
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38  # from prctl(2)
_CAPSET, _CAPABILITY_VERSION = {"x86_64": 126, "aarch64": 91}, 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""The versions of Landlock, and how many file access rights each knows."""
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/dev/random", "/dev/urandom", "/sys/devices/system/cpu",
    "/proc/cpuinfo", "/proc/meminfo",
)  # fmt: skip
"""The files of the system that programs read."""
_MOST_PROCESSES = 512
_SECCOMP, _FILTER_MODE = 22, 2  # from prctl(2)
_NUMBERS = {
    "x86_64": (0xC000003E, {"socket": 41, "memfd_create": 319, "shmget": 29, "io_uring_setup": 425}),
    "aarch64": (0xC00000B7, {"socket": 198, "memfd_create": 279, "shmget": 194, "io_uring_setup": 425}),
}
"""System calls by which a process reaches others through a file's name, or keeps memory outside of its own."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions; see seccomp(2)
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # EPERM
_OTHER_CALLS = 0x40000000  # the numbers of x32


def main() -> None:
    """Answer the request, or end without an answer."""
    settings = json.loads(sys.argv[1])
    request = sys.stdin.buffer.read()
    os.dup2(1, ANSWER)
    if not hasattr(os, "fork"):
        _answer(settings, request)
        return
    if sys.platform == "linux":
        _prctl(_PDEATHSIG, signal.SIGKILL)
        _prctl(_SUBREAPER, 1)
    # A system may allow the namespaces but not the user maps that they need. Try it in another process first.
    apart = sys.platform == "linux" and _waited(lambda: os._exit(0 if _unshare() else NO_ANSWER)) == 0 and _unshare()
    if not apart:
        _lacks(NAMESPACES)
    if _landlock_version() < 1:
        _lacks(LANDLOCK)
    status = _waited(lambda: _first(settings, request) if apart else _last(settings, request))
    if _left():
        status = LEFT
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    os._exit(status)


def _first(settings: dict[str, Any], request: bytes) -> None:
    """The first process of the namespaces: mount, start the last one, and end with it."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    own_proc = _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount("tmpfs", settings["folder"], "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={settings['disk_bytes']},mode=700")
    status = _waited(lambda: _last(settings, request, apart=True, own_proc=own_proc))
    os._exit(LEFT if _left() else status)


def _last(settings: dict[str, Any], request: bytes, apart: bool = False, own_proc: bool = False) -> None:
    """The process that runs the code."""
    if sys.platform == "linux":
        _prctl(_PDEATHSIG, signal.SIGKILL)
    _silent()
    _limit(settings["memory_bytes"], counted_alone=apart)
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVS, 1)
        python = _python([*settings["lists"], *settings["secret"]])
        reads = [*_SYSTEM, "/proc" if own_proc else "/proc/self", *python, *settings["reads"]]
        _restrict(reads, settings["lists"], [settings["folder"], "/dev/null"])
        _drop_capabilities()
        _forbid_calls()
    _answer(settings, request)
    os._exit(0)


def _answer(settings: dict[str, Any], request: bytes) -> None:
    import faulthandler

    faulthandler.enable(ANSWER, all_threads=False)
    from gpuemu.base.cores import share_cores
    from gpuemu.studies.judge.inside import answer

    share_cores()

    with open(ANSWER, "wb", closefd=False) as file:
        file.write(answer(request))


def _waited(child: Callable[[], None]) -> int:
    """Run `child` in a new process. Returns its exit code, or 128 plus its signal."""
    process = os.fork()
    if process == 0:
        try:
            child()
        finally:
            os._exit(NO_ANSWER)
    while True:
        ended, status = os.wait()
        if ended == process:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """Wait for adopted processes: those that ended processes have started and left."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return list(map(int, path.read_text().split())) if path.is_file() else []


def _left() -> list[int]:
    """Whether started processes still run after they had time to end."""
    ends = time.monotonic() + _ENDING_S
    while _children() and time.monotonic() < ends:
        if os.waitpid(-1, os.WNOHANG) == (0, 0):
            time.sleep(0.01)
    return _children()


def _silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def _limit(memory_bytes: int, counted_alone: bool) -> None:
    import resource

    for kind, most in (("AS", memory_bytes), ("FSIZE", memory_bytes), ("CORE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))
    if counted_alone:  # elsewhere all processes of the user count
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))


def _python(but: Iterable[str]) -> Iterable[str]:
    """The folders of Python, its packages and the CUDA toolkit; `but`: no folder that contains one of these."""
    kept = [*but, os.getcwd(), str(Path.home())]
    paths = [path for path in sys.path if path and not any(Path(one).is_relative_to(path) for one in kept)]
    return [sys.prefix, sys.base_prefix, *paths, *_toolkit()]


def _toolkit() -> list[str]:
    """The CUDA toolkit, if it is outside of the system's folders."""
    found = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    if nvcc := shutil.which("nvcc"):
        found += [nvcc, str(Path(nvcc).resolve().parent.parent)]
    return [path for path in found if not os.path.isdir(path) or os.path.isdir(os.path.join(path, "nvvm"))]


def _lacks(what: str) -> None:
    os.write(2, f"{what}\n".encode())


def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(what: int, value: int) -> None:
    _library().prctl(what, ctypes.c_ulong(value), *map(ctypes.c_ulong, (0, 0, 0)))


def _unshare() -> bool:
    """Enter new namespaces. Returns whether that is allowed."""
    user, group = os.getuid(), os.getgid()
    if _library().unshare(sum(_CLONE.values())) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{_KNOWN} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{_KNOWN} {group} 1")
    except OSError:
        return False
    return True


def _mount(what: str | None, where: str, kind: str | None, flags: int, data: str | None = None) -> bool:
    words = [None if word is None else word.encode() for word in (what, where, kind, data)]
    return bool(_library().mount(*words[:3], ctypes.c_ulong(flags), words[3]) == 0)


def _drop_capabilities() -> None:
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        _library().syscall(number, struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _forbid_calls() -> None:
    """Refuse the calls of _NUMBERS, or none if the system's numbers are not known."""
    if os.uname().machine not in _NUMBERS:
        return
    kind, calls = _NUMBERS[os.uname().machine]
    refuse = len(calls) + 1
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 0, refuse + 2, kind), (_LOAD, 0, 0, 0), (_AT_LEAST, refuse, 0, _OTHER_CALLS)]
    steps += [(_EQUAL, refuse - 1 - n, 0, number) for n, number in enumerate(calls.values())]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    if _library().prctl(_SECCOMP, ctypes.c_ulong(_FILTER_MODE), program, *map(ctypes.c_ulong, (0, 0))) != 0:
        os._exit(NO_ANSWER)


def _landlock_version() -> int:
    """0 if there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_library().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def _restrict(reads: Iterable[str], lists: Iterable[str], writes: Iterable[str]) -> None:
    """Let this process and its children read, list and write only below these places, and signal nobody."""
    version, library = _landlock_version(), _library()
    if version < 1:
        return
    everything = (1 << max(rights for since, rights in _RIGHTS if since <= version)) - 1
    attributes = struct.pack("=QQQ", everything, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = library.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    for paths, rights in ((reads, _READ), (lists, _READ_DIR), (writes, everything)):
        for path in paths:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            allowed = rights & everything & (-1 if os.path.isdir(path) else _OF_FILES)
            library.syscall(_ADD_RULE, rules, ctypes.c_int(1), struct.pack("=Qi", allowed, place), ctypes.c_uint(0))
            os.close(place)
    if library.syscall(_RESTRICT_SELF, rules, ctypes.c_uint(0)) != 0:
        os._exit(NO_ANSWER)
    os.close(rules)


if __name__ == "__main__":
    main()
