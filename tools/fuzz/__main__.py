"""Runs damaged inputs of all kinds: python tools/fuzz [INPUTS] [--seed N] [--only KIND]

The last line says how many inputs, and how many of them ended in a traceback. Before it stands one traceback of each
place with its kind and number, from which the input can be made again: python tools/fuzz --only KIND --seed NUMBER 1
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from inputs import KINDS, Inputs, attempt

from gpuemu.engine import building

MOST_SECONDS = 30
"""Of the processor's time, so that a busy machine fails no input."""
MOST_BYTES = 6 << 30
MOST_SHOWN = 20


class TooLongError(BaseException):
    """An input took more than MOST_SECONDS."""


Failure = tuple[str, int, BaseException]
"""The kind and the number of an input, and what it raised."""


def run(
    count: int, first: int = 0, only: str | None = None, tell: Callable[[Failure], None] = lambda _: None
) -> list[Failure]:
    """The inputs of `count` numbers from `first` on, shared among the kinds; what went wrong with which.

    `tell` hears of each failure at once.
    """
    order = [kind for kind, weight in KINDS.items() for _ in range(weight)]
    failed: list[Failure] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = Inputs(Path(folder))
        if only in (None, "machine_code") and building.is_possible():
            building.load()  # which may compile it, for longer than any input takes
        for number in range(first, first + count):
            # 37 and 100 have no common divisor, so the kinds alternate.
            kind = only or order[number * 37 % len(order)]
            _watch(MOST_SECONDS)
            error = attempt(inputs, kind, number)
            _watch(0)
            if error is not None:
                failed.append((kind, number, error))
                tell(failed[-1])
    return failed


def _watch(seconds: int) -> None:
    """Raise TooLongError after so many seconds, on systems that can."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _too_long(*_: object) -> None:
    raise TooLongError(f"more than {MOST_SECONDS} seconds")


def _limit_memory() -> None:
    """Let an input that would take all memory end in a traceback."""
    try:
        import resource
    except ImportError:  # there is none on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, hard))


def main() -> None:
    """Run them and say what was found."""
    parser = argparse.ArgumentParser(prog="python tools/fuzz", description="Run damaged inputs of all kinds.")
    parser.add_argument("count", metavar="INPUTS", nargs="?", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="The number of the first input.")
    parser.add_argument("--only", choices=KINDS, help="Inputs of this kind alone.")
    options = parser.parse_args()
    _limit_memory()
    shown = set()

    def tell(failure: Failure) -> None:
        kind, number, error = failure
        place = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][-1:]
        if (type(error), *place) not in shown and len(shown) < MOST_SHOWN:
            shown.add((type(error), *place))
            print(f"{kind} {number}:")
            traceback.print_exception(error, file=sys.stdout)
            sys.stdout.flush()

    failed = run(options.count, options.seed, options.only, tell)
    print(f"{options.count:,} inputs, {len(failed):,} tracebacks")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
