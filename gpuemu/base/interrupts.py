"""Handle Ctrl-C while processes start, and end worker processes together with their parent.

A terminal sends SIGINT to every process of a command. The command itself reacts to it, and its worker processes do not:

    with held():                                      # in the command
        executor.submit(...)                          # starts workers
    follow(parent)                                    # first in each worker

A worker that dies of SIGINT while it starts would take a lock with it, and the other workers would wait for that lock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_S = 0.5
"""Interval at which a process checks that its parent still exists."""
_HAS_MASK = hasattr(signal, "pthread_sigmask")
_NO_WARNING = "ignore:resource_tracker:UserWarning"


@contextmanager
def held() -> Iterator[None]:
    """Postpone Ctrl-C until the context ends. Processes and threads that start in it have SIGINT blocked (POSIX)."""
    before = signal.getsignal(signal.SIGINT)
    postpones = threading.current_thread() is threading.main_thread() and callable(before)
    came: list[int] = []
    if postpones:  # another thread may receive the signal, but only this one runs the handler
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if _HAS_MASK else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if postpones:
            signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def ready_trackers(*more: Callable[[], None]) -> None:
    """Start resource trackers in advance, and keep their warnings off the terminal: multiprocessing's and `more`.

    Python 3.11 unblocks SIGINT when it starts one. If a command ends while it tidies up, they remove what it leaves,
    and a list of its locks would help nobody.
    """
    if _HAS_MASK:
        from multiprocessing import resource_tracker

        sys.warnoptions.append(_NO_WARNING)  # a tracker gets the options of this interpreter
        try:
            with held():
                for start in (resource_tracker.ensure_running, *more):
                    start()
        finally:
            sys.warnoptions.remove(_NO_WARNING)


def follow(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when the parent has ended. Call this in a process that `held` started.

    SIGINT gets a handler that does nothing. If SIGINT were ignored instead, a compiler that starts here would inherit
    that and outlive the command.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    if _HAS_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        threading.Thread(target=_end_after, args=(parent,), name="end with the parent", daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)
