"""The process that judges: `python -P -m gpuemu.studies.judge.worker MEMORY_BYTES`. It runs no code of a candidate.

The process reads pickles from its parent, and answers in JSON: {"judgement": ..., "lacks": [...]}, or {"problems":
[...]} if the problem is wrong in itself. {"spent": true} says that its memory ran out, and may stay used. The process
ends when nobody listens any more.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from gpuemu.base.errors import GpuemuError
from gpuemu.base.shown import shown_in_a_line
from gpuemu.studies.judge.judging import LIMIT, REFUSED, Task, judge_one

LENGTH = struct.Struct("!Q")
"""The bytes in front of each message."""


def main() -> None:
    """Judge one task after the other."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Windows consoles send one; elsewhere there is none
    memory_bytes = int(sys.argv[1])
    _limit(memory_bytes)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The output of a problem is no answer.
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(os.fdopen(os.dup(0), "rb"), tasks), daemon=True).start()
    while True:
        folder, task = pickle.loads(tasks.get())
        os.chdir(folder)
        content = json.dumps(_answer(task, memory_bytes)).encode()
        answers.write(LENGTH.pack(len(content)) + content)
        answers.flush()


def _listen(requests: BinaryIO, tasks: queue.SimpleQueue[bytes]) -> None:
    """Pass on requests. End the process, whatever it does, when the requester is gone."""
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        tasks.put(requests.read(*LENGTH.unpack(head)))
    os._exit(0)


def _limit(memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _answer(task: Task, memory_bytes: int) -> dict[str, Any]:
    try:
        judgement, lacks = judge_one(task)
    except GpuemuError as error:
        return {"problems": [[one.file, one.line, one.field, one.found, one.right] for one in error.problems]}
    except MemoryError:
        told = task.judgement(LIMIT, f"took more than {memory_bytes:,} bytes of memory")
        return {"judgement": told, "lacks": [], "spent": True}
    except BaseException as error:
        return {"judgement": task.judgement(REFUSED, _own_fault(error)), "lacks": []}
    return {"judgement": judgement, "lacks": lacks}


def _own_fault(error: BaseException) -> str:
    """The verdict for a candidate that reveals a fault of gpuemu; it says where to look."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(at.filename).name}:{at.lineno}"
    return shown_in_a_line(f"gpuemu failed with {type(error).__name__} in {place}: {error}; please report it")


if __name__ == "__main__":
    main()
