"""Ctrl-C ends a command with one line and exit code 130, whatever the command is doing.

Before the command begins there is nothing to tidy up: the process ends at once. While the command runs, Ctrl-C raises
KeyboardInterrupt, so that workers and compilers end and temporary folders go; a second Ctrl-C changes nothing. A thread
sees the signal even while the main thread compiles or waits. It ends a process that is still there after GRACE_S.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

INTERRUPTED = 130
GRACE_S = 4.0
"""The seconds that a command may take to tidy up."""
_LINE = "interrupted"
_WIPED = b"\r\x1b[K\x1b[?25h"
"""On a terminal: remove the line of a progress bar, and show the cursor again."""
_AGAIN_S = 0.02


class _Watch:
    """Handles Ctrl-C for this process."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        if hasattr(os, "set_blocking"):  # Unix convention. Windows has it from Python 3.12 on.
            os.set_blocking(self._writer, False)
        self._is_over = False
        """Whether the command has printed all of its output."""
        self._unraisable = sys.unraisablehook
        sys.unraisablehook = self._raise_again
        signal.signal(signal.SIGINT, self._end_now)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        threading.Thread(target=self._look, name="Ctrl-C", daemon=True).start()

    def begin(self) -> None:
        """Raise KeyboardInterrupt from now on."""
        signal.signal(signal.SIGINT, self._raise)

    def end(self) -> None:
        """Let the watching thread end the process."""
        signal.signal(signal.SIGINT, self._ignore)
        self._is_over = True

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """Handle Ctrl-C as Python does by default, within this context."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)
        try:
            yield
        finally:
            signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            signal.signal(signal.SIGINT, before)

    def _raise(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._ignore)
        raise KeyboardInterrupt

    def _ignore(self, *_: object) -> None:
        """Go on tidying up after a second Ctrl-C."""

    def _end_now(self, *_: object) -> None:
        if not self._is_over:
            with suppress(OSError):
                os.write(2, _WIPED * os.isatty(2) + _LINE.encode() + b"\n")
        os._exit(INTERRUPTED)

    def _look(self) -> None:
        while seen := os.read(self._reader, 1):
            if seen[0] == signal.SIGINT:
                time.sleep(GRACE_S)
                self._end_now()

    def _raise_again(self, unraisable: Any) -> None:
        """Python drops an exception that is raised while it frees an object, or while C code calls back. Raise it
        again.
        """
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._unraisable(unraisable)
        elif not self._is_over:
            signal.signal(signal.SIGINT, self._raise)
            again = threading.Timer(_AGAIN_S, _interrupt_main)
            again.daemon = True
            again.start()


def _interrupt_main() -> None:
    if hasattr(signal, "pthread_kill"):  # This also wakes up a main thread that waits.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


_watch: _Watch | None = None


def answer() -> None:
    """Handle Ctrl-C from now on, in a process that is a command. A process that ignores Ctrl-C keeps ignoring it."""
    global _watch
    if _watch is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _watch = _Watch()


@contextmanager
def running() -> Iterator[None]:
    """Run a command. If it is interrupted, say so and exit with INTERRUPTED."""
    try:
        if _watch is not None:
            _watch.begin()
        yield
    except KeyboardInterrupt:
        tell()
        raise SystemExit(INTERRUPTED) from None
    finally:
        if _watch is not None:
            _watch.end()
        exec("")  # Python would exit as if nobody had caught an interrupt within exec(). The next exec() clears that.


@contextmanager
def left_to_a_script() -> Iterator[None]:
    """Run a program of the user, which may catch KeyboardInterrupt and take its time."""
    if _watch is None:
        yield
    else:
        with _watch.left_alone():
            yield


def tell() -> None:
    """Say that the command was interrupted."""
    with suppress(OSError, ValueError, AttributeError):
        print(_LINE, file=sys.stderr)
