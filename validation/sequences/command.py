"""The command `sequences`: emulates, builds, runs and compares hand-assembled sequences.

Only `run` needs a GPU, with CuPy and NumPy alone; it imports no gpuemu.
"""

from __future__ import annotations

import argparse


def main(options: argparse.Namespace) -> None:
    """Run a step of the command."""
    if options.step == "run":
        from validation.sequences.running import run

        run(options.folder, print)
        return
    from gpuemu import load_arch
    from validation.sequences import comparing
    from validation.suite import progress_bar

    if options.step == "compare":
        lines = comparing.compare(options.folder, load_arch(options.arch))
    else:
        with progress_bar() as progress:
            found = comparing.assembled(options.file, options.gpu, progress)
        if options.step == "build":
            comparing.build(found, options.output, print)
            return
        lines = comparing.emulate(found, load_arch(options.arch))
    for line in lines:
        print(line, flush=True)
