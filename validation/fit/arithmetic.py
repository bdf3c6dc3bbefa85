"""Latencies of the arithmetic units and of the tensor core, and the cost of a loop."""

from __future__ import annotations

from validation.corpus.tensor import MODES
from validation.corpus.units import loop_length
from validation.fit.experiments import Experiment, Kernels, per_iteration

_CLASSES = {
    "integer": "iadd3", "ffma": "ffma", "imad": "imad", "fp64": "dfma", "mufu": "mufu_ex2", "conversion": "f2i",
}  # fmt: skip
"""A class of the architecture file, and the unit of the corpus that stands for it.

Classes of which no chain tells are missing. In a chain of half-precision operations the compiler takes turns between
two pipes (HFMA2, HFMA2.MMA). A 64-bit product needs a LOP3 at each step, and where the hardware holds such a chain up
for longer than its stall counts say, that is no latency (DEVIATIONS.md: WIDE).
"""


def chain_latency(short: str, long: str, steps: int) -> Experiment:
    """Cycles a step of a dependent chain: two lengths of it, so that the loop's own cost drops out."""

    def formula(kernels: Kernels) -> float:
        return (per_iteration(kernels[long]) - per_iteration(kernels[short])) / steps

    return Experiment((), (short, long), formula, "cycles a step of a dependent chain, from two lengths of it")


def _at(experiment: Experiment, *path: str) -> Experiment:
    return Experiment(path, experiment.kernels, experiment.formula, experiment.about, experiment.whole)


def _interval(loop: str, steps: int, path: tuple[str, ...]) -> Experiment:
    """Cycles a step of a loop by four warps a sub-core: two lengths of it, so that the loop's own cost drops out.

    `steps` are those of the shorter one by one warp, as many as the longer one has more.
    """
    once, twice = f"{loop}_w16", f"{loop}_w16_twice"

    def formula(kernels: Kernels) -> float:
        return (per_iteration(kernels[twice]) - per_iteration(kernels[once])) / (4 * steps)

    about = "cycles a step, four warps a sub-core, from two lengths of the loop"
    return Experiment((*path, "issue_interval_cycles"), (once, twice), formula, about)


def _mode_path(name: str) -> str:
    return name.replace("_", ".")


def _tensor() -> list[Experiment]:
    made = []
    for mode in MODES:
        path = ("tensor_core", "operations", _mode_path(mode.name))
        short, long = f"lat_mma_{mode.name}_8", f"lat_mma_{mode.name}_16"
        made.append(_at(chain_latency(short, long, 8), *path, "latency_cycles"))
        # A first value, which also serves a mode that the file does not have yet; a search refines it.
        made.append(_interval(f"thr_mma_{mode.name}_a4", 16, path))
    return made


def _taken_branch() -> Experiment:
    """A turn of a loop of n FFMA, from 8 and 16 turns of it, less n: the constant part.

    Beside the branch, two instructions count and compare; they take an issue slot each. Whatever else delays a turn
    (the comparison's latency in a short one) makes it longer, so the least is taken. One warp a sub-core.
    """
    lengths = (16, 32)
    names = tuple(f"loop_fma{n}{longer}_w4" for n in lengths for longer in ("", "_longer"))

    def formula(kernels: Kernels) -> float:
        def turn(n: int) -> float:
            short, long = kernels[f"loop_fma{n}_w4"], kernels[f"loop_fma{n}_longer_w4"]
            return (long.cycles_min - short.cycles_min) / (long.iterations - short.iterations)

        return min(turn(n) - n for n in lengths) - 2

    about = "cycles of a turn beyond its instructions, the least of loops of 16 and 32"
    return Experiment(("issue", "taken_branch_cycles"), names, formula, about)


def experiments() -> list[Experiment]:
    """All of them."""
    made = []
    for name, unit in _CLASSES.items():
        made.append(_at(chain_latency(f"lat_{unit}_16", f"lat_{unit}_32", 16), "operations", name, "latency_cycles"))
    # A search would not tell 1 from 2: in the emulator the pipe is late for other reasons, and DFMA for its registers.
    made.append(_interval("thr_dadd", loop_length("dadd"), ("operations", "fp64")))
    return [*made, *_tensor(), _taken_branch()]
