"""A worker process: reads a job, then chunks of points, from standard input; answers on standard output.

Everything is a pickle, from and to the process that started it. It ends when its input does.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from gpuemu.studies.sweeps.pools import Job


def serve() -> None:
    """Serve until the other end closes."""
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as requests,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers,
    ):
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not end up among the answers
        try:
            job: Job = pickle.load(requests)
            pickle.dump(job.check_program(), answers)
            answers.flush()
            while True:
                chunk: list[Any] = pickle.load(requests)
                pickle.dump(job.run(chunk), answers)
                answers.flush()
        except (EOFError, BrokenPipeError):
            return
