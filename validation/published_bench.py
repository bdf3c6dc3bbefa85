"""The common parts of the published table's microbenchmarks: short programs between two reads of the SM's clock.

A program is a list of lines of SASS. The line's control word follows a bar, by its parts: waits (`B01`), read and write
counter (`R0`, `W1`), yield (`Y`) and stall count (`S04`, by default 1):

    LDS R0, [R0] | B0 W0 S02

A program whose lines have no bar has no control words; the register scoreboard then keeps its dependences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gpuemu

Probe = Callable[..., float]
PROBES: dict[str, Probe] = {}
"""The microbenchmarks by name: `published_probes` and `published_limits` enter theirs."""
RULE_OF: dict[str, str] = {}
SHARED_BYTES = 32768
"""Shared memory of every microbenchmark: all addresses below are inside, on every chip."""
READ_CLOCK = "CS2R.32 R62, SR_CLOCKLO"
LONG, SHORT = 40, 8
"""Lengths of the chains whose difference gives a latency: what is before and behind the chain falls out."""
_ADDRESSED = ("LDS", "STS", "ATOMS", "LDG.", "STG.", "RED.", "ATOMG.", "LDGSTS")


def probe(rule: str) -> Callable[[Probe], Probe]:
    """Enter a probe under its name; `rule` is how its figures are judged (`validation.published.judge`)."""

    def enter(function: Probe) -> Probe:
        PROBES[function.__name__] = function
        RULE_OF[function.__name__] = rule
        return function

    return enter


def method(name: str) -> str:
    """The first sentence of a probe's docstring."""
    return " ".join((PROBES[name].__doc__ or "").partition("\n\n")[0].split())


def control(text: str) -> str:
    """A control word as `TraceBuilder.emit` takes it, from the parts that matter."""
    waits, read, write, yields, stall = ["-"] * 6, "-", "-", "-", 1
    for part in text.split():
        kind, value = part[0], part[1:]
        if kind == "B":
            for digit in value:
                waits[int(digit)] = digit
        elif kind == "R":
            read = value
        elif kind == "W":
            write = value
        elif kind == "Y":
            yields = "Y"
        else:
            stall = int(value)
    return f"B{''.join(waits)}:R{read}:W{write}:{yields}:S{stall:02d}"


class Bench:
    """A trace in the making. `lanes` and `active` are those of every memory instruction that is emitted."""

    def __init__(
        self, arch: gpuemu.Architecture, warps: int = 1, lanes: Any = "4*lane", active: int | None = None, **launch: Any
    ):
        self.arch = arch
        self.lanes = lanes
        self.active = active
        launch = {"static_shared_bytes": SHARED_BYTES, **launch}
        name = f"sm_{arch.compute_capability.replace('.', '')}"
        self.trace = gpuemu.TraceBuilder("microbenchmark", arch=name, block=(32 * warps, 1, 1), **launch)

    def emit(self, *lines: str) -> None:
        """Append lines of SASS."""
        for line in lines:
            sass, bar, word = line.partition("|")
            addressed = any(mnemonic in sass for mnemonic in _ADDRESSED)
            self.trace.emit(
                sass.strip(), lanes=self.lanes if addressed else None, active=self.active if addressed else None,
                control=control(word) if bar else None,
            )  # fmt: skip

    def run(self) -> gpuemu.Result:
        """Run it on the architecture."""
        return gpuemu.run(self.trace.build(), self.arch)


def elapsed(
    arch: gpuemu.Architecture, before: Sequence[str], inside: Sequence[str], times: int, *, warps: int = 1,
    lanes: Any = "4*lane", active: int | None = None, waits: str = "", stall: int = 1, controlled: bool = True,
) -> float:  # fmt: skip
    """Cycles between the clock reads around `times` repetitions of `inside`, from the first warp's to the last's.

    `before` runs ahead of the first read, which has stall count `stall`; the second waits for the counters `waits`.
    """
    bench = Bench(arch, warps, lanes, active)
    bench.emit(*before)
    bench.emit(f"{READ_CLOCK} | S{stall}" if controlled else READ_CLOCK)
    with bench.trace.repeat(times):
        bench.emit(*inside)
    bench.emit(f"{READ_CLOCK} | {waits} S5" if controlled else READ_CLOCK, "EXIT | S5" if controlled else "EXIT")
    reads = [warp.clock_reads for warp in bench.run().warps]
    return float(max(r[-1] for r in reads) - min(r[0] for r in reads))


def slope(arch: gpuemu.Architecture, inside: Sequence[str], before: Sequence[str] = (), **options: Any) -> float:
    """Cycles for each further repetition of `inside`: what stands around a chain is not in it."""
    long, short = (elapsed(arch, before, inside, times, **options) for times in (LONG, SHORT))
    return (long - short) / (LONG - SHORT)


def busy_rate(arch: gpuemu.Architecture, inside: Sequence[str], times: int, warps: int, lanes: Any = "4*lane") -> float:
    """Repetitions of `inside`, of all warps together, for each cycle, once the queues are full.

    The difference of a long and a short run: what fills the queues first, and what is still in them when the clock is
    read, is in both.
    """
    long, short = (elapsed(arch, [], inside, n, warps=warps, lanes=lanes) for n in (times, times // 3))
    return warps * (times - times // 3) / (long - short)
