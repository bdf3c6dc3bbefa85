"""Ctrl-C while processes start, and processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpuemu.base.interrupts import held

if not hasattr(signal, "pthread_sigmask"):
    pytest.skip("signals are blocked on Unix alone", allow_module_level=True)

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"


@pytest.fixture(autouse=True)
def _as_python_begins() -> Iterator[None]:
    """A shell without job control lets what runs in its background ignore Ctrl-C, these tests for instance."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def child() -> str:
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout


def test_it_waits_until_what_must_be_whole_is_done() -> None:
    done = []

    def whole() -> None:
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        whole()
    assert done == [1]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_starts_meanwhile_has_it_blocked_and_one_that_starts_later_has_not() -> None:
    with held():
        assert child() == "True\n"
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(child()))
        thread.start()
        thread.join()
        assert found == ["True\n"]
    assert child() == "False\n"


def test_another_thread_may_start_processes_too() -> None:
    found: list[str] = []

    def start() -> None:
        with held():
            found.append(child())

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert found == ["True\n"]


FOLLOWER = """
import os, subprocess, sys, time
from gpuemu.base.interrupts import follow
follow(os.getppid())
print(os.getpid(), flush=True)
subprocess.run([sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"])
sys.stdout.flush()
time.sleep(60)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_follower_leaves_ctrl_c_to_its_parent_and_ends_when_that_is_gone() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, FOLLOWER], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    number = int(parent.stdout.readline())
    assert parent.stdout.readline() == "False\n", "a compiler that it starts hears Ctrl-C"
    os.kill(number, signal.SIGINT)
    time.sleep(0.2)
    os.kill(number, 0)
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == ""  # until the follower has closed it, too
    parent.stdout.close()
