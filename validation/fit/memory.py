"""The load/store path, shared memory and barriers."""

from __future__ import annotations

from validation.fit.arithmetic import chain_latency
from validation.fit.experiments import Experiment, Kernels, line, per_iteration, slope

_WAYS = (1, 2, 4, 8, 16, 32)
_BARRIER_WARPS = (1, 2, 4, 8, 16)


def _chain(path: str, what: str) -> Experiment:
    found = chain_latency(f"lat_{what}_8", f"lat_{what}_16", 8)
    return Experiment(tuple(path.split(".")), found.kernels, found.formula, found.about)


def _shuffle() -> Experiment:
    found = chain_latency("lat_shfl_16", "lat_shfl_32", 16)
    return Experiment(("mio", "shuffle_latency_cycles"), found.kernels, found.formula, found.about)


def _wavefronts() -> Experiment:
    """Latency of a chain of loads against their wavefronts: the slope is what a sub-core needs for one more."""
    names = tuple(f"lat_lds32_c{ways}_{length}" for ways in _WAYS for length in (8, 16))

    def formula(kernels: Kernels) -> float:
        def latency(ways: int) -> float:
            short, long = kernels[f"lat_lds32_c{ways}_8"], kernels[f"lat_lds32_c{ways}_16"]
            return (long.cycles_min - short.cycles_min) / (8 * long.iterations)

        return slope([(float(ways), latency(ways)) for ways in _WAYS])

    return Experiment(
        ("shared_memory", "cycles_per_wavefront_per_warp"), names, formula,
        "cycles a further wavefront adds to a chain of loads, least squares over 1 to 32 ways",
    )  # fmt: skip


def _source_registers() -> Experiment:
    """Stores of one warp leave every 2 x (address + data registers) cycles: the slope over the registers."""
    registers = {"sts32": 2, "sts64": 3, "sts128": 5}
    names = tuple(f"rate_{what}_c1{twice}_w1" for what in registers for twice in ("", "_twice"))

    def formula(kernels: Kernels) -> float:
        def each(what: str) -> float:
            once, twice = kernels[f"rate_{what}_c1_w1"], kernels[f"rate_{what}_c1_twice_w1"]
            return (per_iteration(twice) - per_iteration(once)) / 8

        return slope([(float(count), each(what)) for what, count in registers.items()])

    return Experiment(
        ("mio", "cycles_per_source_register"),
        names,
        formula,
        "cycles a further source register adds to a store of one warp",
    )


def _atomic() -> Experiment:
    """A chain of atomics that add; the register that is added is sent behind the address, and is no part of it."""
    chain, sent = chain_latency("lat_atoms_add_c1_8", "lat_atoms_add_c1_16", 8), _source_registers()

    def formula(kernels: Kernels) -> float:
        return chain.formula(kernels) - sent.formula(kernels)

    return Experiment(
        ("shared_memory", "atomic_latency_cycles"), (*chain.kernels, *sent.kernels), formula,
        f"{chain.about}, less what a source register adds to a store",
    )  # fmt: skip


def _barrier(path: tuple[str, str], part: int) -> Experiment:
    """All warps arriving together: cycles = latency + interval x warps, by least squares."""
    names = tuple(f"bar_alu0{twice}_w{warps}" for warps in _BARRIER_WARPS for twice in ("", "_twice"))

    def formula(kernels: Kernels) -> float:
        points = []
        for warps in _BARRIER_WARPS:
            once, twice = kernels[f"bar_alu0_w{warps}"], kernels[f"bar_alu0_twice_w{warps}"]
            points.append((float(warps), (per_iteration(twice) - per_iteration(once)) / 4))
        return line(points)[part]

    about = "slope" if part == 0 else "constant"
    return Experiment(
        path, names, formula, f"{about} of a barrier's cycles against its warps, least squares over 1 to 16"
    )


def experiments() -> list[Experiment]:
    """All of them."""
    return [
        _shuffle(),
        _source_registers(),
        _chain("shared_memory.latency_cycles", "lds32_c1"),
        _wavefronts(),
        _atomic(),
        _barrier(("barrier", "latency_cycles"), 1),
        _barrier(("barrier", "arrival_interval_cycles"), 0),
    ]
