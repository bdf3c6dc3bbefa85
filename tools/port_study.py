"""Writes validation/ports.md: which ports of shared memory the hardware's counts and times allow.

    python tools/port_study.py                                       writes the page
    python tools/port_study.py --check                               exits with 1 if the page is not up to date
    python tools/port_study.py count v3_padded 1 2                   a cell of its first table: read and write ports
    python tools/port_study.py time port_rw_128_w8 separate:1+1      a cell of its last table

Every figure comes from a run, every verdict from the thresholds below.
"""

from __future__ import annotations

import sys
from functools import cache

from measured import H200, measured, table, write_page

import gpuemu
from gpuemu.isa.opcodes import Row
from gpuemu.trace.model import Trace

ARCH = "sm_90"
KERNELS = ("v1_global", "v2_shared_memory", "v3_padded", "v4_ldmatrix", "v5_swizzle")
BUSY = tuple(measured()["ports"])
TOPOLOGIES = {
    "unified:1": {"topology": "unified", "unified": 1},
    "unified:2": {"topology": "unified", "unified": 2},
    "separate:1+1": {"topology": "separate", "read": 1, "write": 1},
    "separate:2+1": {"topology": "separate", "read": 2, "write": 1},
    "separate:1+2": {"topology": "separate", "read": 1, "write": 2},
    "separate:2+2": {"topology": "separate", "read": 2, "write": 2},
}
"""How the data stage is reached: one set of ports for reads and writes, or reads + writes."""
PORTS_OF_A_BANK = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Read and write ports of a bank: how many different words it serves in a wavefront."""
ALLOWED_MEAN_ERROR = 0.05
"""A topology is allowed if its times are off by no more than this on the mean."""


def shared_accesses(trace: Trace) -> list[tuple[str, gpuemu.SharedAccess]]:
    """Every shared-memory access that the trace's first warp makes, with its opcode, in order."""
    arch, warp = gpuemu.load_arch(ARCH), trace.warps[0]
    memory = [i for i in warp.path.tolist() if trace.code[i].accesses_memory]
    found = []
    for index, row in zip(memory, warp.rows.tolist(), strict=True):
        opcode = trace.code[index].opcode
        if opcode.split(".")[0] in ("LDS", "STS", "LDSM", "STSM", "ATOMS"):
            mask = sum(int(on) << lane for lane, on in enumerate(trace.active[row]))
            short = opcode.replace(".16", "").replace(".MT88", ".T").replace(".M88", "")
            found.append((opcode, gpuemu.shared_access(arch, short, trace.addresses[row], mask)))
    return found


@cache
def counted(kernel: str, reads: int, writes: int) -> tuple[int, int]:
    """Wavefronts of a kernel's loads and stores if a bank served so many words in a wavefront."""
    loads = stores = 0
    for opcode, access in shared_accesses(gpuemu.load_trace(kernel)):
        stores_it = opcode.startswith("ST")
        ports = writes if stores_it else reads
        wavefronts = sum(-(-phase.wavefronts // ports) for phase in access.phases)
        loads, stores = loads + wavefronts * (not stores_it), stores + wavefronts * stores_it
    return loads, stores


def settings(topology: str) -> dict[str, object]:
    """The values of the architecture file behind a topology's name."""
    return {f"shared_memory.ports.{name}": value for name, value in TOPOLOGIES[topology].items()}


@cache
def whole_run(kernel: str, topology: str) -> int:
    """Cycles of one of the five kernels."""
    arch = gpuemu.load_arch(ARCH).with_overrides(settings(topology))
    return gpuemu.run(gpuemu.load_trace(kernel), arch).cycles


@cache
def second_pass(kernel: str, topology: str) -> int:
    """Cycles of the second pass of a kernel that keeps the ports busy, by the clocks that its warps read."""
    arch = gpuemu.load_arch(ARCH).with_overrides(settings(topology))
    reads = [warp.clock_reads for warp in gpuemu.run(_busy(kernel), arch).warps]
    return max(of[-1] for of in reads) - min(of[len(of) // 2] for of in reads)


@cache
def _busy(kernel: str) -> Trace:
    return gpuemu.load_trace(H200 / f"{kernel}.yaml")


def mean_error(topology: str) -> float:
    """How far the times under a topology are from the measured ones, on the mean."""
    errors = [abs(second_pass(k, topology) / measured()["ports"][k] - 1) for k in BUSY]
    return sum(errors) / len(errors)


def counts_allow(reads: int, writes: int) -> bool:
    """Whether the counts of all five kernels are those of the hardware."""
    hardware = measured()["example_kernels"]
    return all(counted(k, reads, writes) == (hardware[k]["loads"], hardware[k]["stores"]) for k in KERNELS)


def times_allow(topology: str) -> bool:
    """Whether the hardware's times allow a topology."""
    return mean_error(topology) <= ALLOWED_MEAN_ERROR


def _verdict(allowed: bool) -> str:
    return "allowed" if allowed else "**refuted**"


def page() -> str:
    """validation/ports.md."""
    hardware = measured()["example_kernels"]
    count_rows = [
        [
            k,
            f"{hardware[k]['loads']} / {hardware[k]['stores']}",
            *("{} / {}".format(*counted(k, *p)) for p in PORTS_OF_A_BANK),
        ]
        for k in KERNELS
    ]
    count_rows.append(["", "the counts", *(_verdict(counts_allow(*p)) for p in PORTS_OF_A_BANK)])
    time_rows = [[k, str(hardware[k]["cycles"]), *(str(whole_run(k, t)) for t in TOPOLOGIES)] for k in KERNELS]
    busy_rows = [[k, str(measured()["ports"][k]), *(str(second_pass(k, t)) for t in TOPOLOGIES)] for k in BUSY]
    busy_rows += [
        ["", "off by, on the mean", *(f"{mean_error(t):.1%}" for t in TOPOLOGIES)],
        ["", "the times", *(_verdict(times_allow(t)) for t in TOPOLOGIES)],
    ]
    spread = max(max(whole_run(k, t) for t in TOPOLOGIES) - min(whole_run(k, t) for t in TOPOLOGIES) for k in KERNELS)
    allowed_counts = [p for p in PORTS_OF_A_BANK if counts_allow(*p)]
    allowed_times = [t for t in TOPOLOGIES if times_allow(t)]
    misses = {(t, k): second_pass(k, t) / measured()["ports"][k] - 1 for t in allowed_times for k in BUSY}
    worst = max(misses, key=lambda at: abs(misses[at]), default=None)
    widest = f" Its widest miss is {worst[1]}, {misses[worst]:+.0%}." if worst else ""
    conflicts = (
        gpuemu.run(gpuemu.load_trace("v3_padded"), gpuemu.load_arch(ARCH)).shared_memory[Row.STORE].bank_conflicts
    )
    lines = [
        "# The ports of shared memory: what the hardware allows",
        "",
        "<!-- Written by python tools/port_study.py; a test compares. -->",
        "",
        "Do reads and writes share the ports of the banks, and how many are there? gpuemu takes both for values of the",
        "architecture file (`shared_memory.ports`), so each answer can be tried. Two questions have to be told apart:",
        "how many *different words* one bank serves at once, which shows in counts of wavefronts; and how many",
        "*wavefronts* pass at once, which shows in time. Hardware figures are one H200's (`tools/h200/measured.yaml`).",
        "",
        "## Words of a bank: the counts of the five kernels",
        "",
        "Wavefronts of shared loads / stores, if each bank had so many read + write ports and served as many",
        "different words in a wavefront. A phase of w wavefronts would shrink to w / ports, rounded up.",
        "",
        *table(["kernel", "H200", *(f"{r} + {w}" for r, w in PORTS_OF_A_BANK)], count_rows),
        "",
        f"Left: {_named([f'{r} + {w}' for r, w in allowed_counts])}.",
        "Stores to different words of one bank conflict as loads do: v3_padded has",
        f"{hardware['v3_padded']['store_conflicts']} store conflicts on the H200 and {conflicts} here.",
        "Each cell: `python tools/port_study.py count KERNEL READ WRITE`; the first column of ports also",
        "`gpuemu run KERNEL --arch sm_90`, where KERNEL is the trace of that name.",
        "",
        "## Wavefronts at a time: the cycles of the five kernels",
        "",
        *table(["kernel", "H200", *TOPOLOGIES], time_rows),
        "",
        f"One warp alone cannot tell: whatever the ports, the cycles differ by {spread} at most, because a sub-core",
        "sends and takes a wavefront every other cycle, and no other warp is there to use a second port. (The H200's",
        "column holds kernels compiled for it from other sources and launched cold; it is no test of the model.)",
        "Each cell: `gpuemu run KERNEL --arch sm_90` with `--set shared_memory.ports.topology=separate",
        "--set shared_memory.ports.read=2 --set shared_memory.ports.write=1` for separate:2+1, and",
        "`--set shared_memory.ports.unified=2` for unified:2.",
        "",
        "## Wavefronts at a time: kernels that keep the ports busy",
        "",
        "Their warps do nothing but read (r), write (w), or half of them read while the others write (rw); the words",
        "lie so that 32 (128) or 8 (32) of a warp's lanes meet in one bank; 4, 8 or 16 warps. Cycles of the second of",
        "two passes.",
        "",
        *table(["kernel", "H200", *TOPOLOGIES], busy_rows),
        "",
        f"Left, with a mean error of up to {ALLOWED_MEAN_ERROR:.0%}: {_named(allowed_times)}.{widest}",
        "On the H200 loads alone need as many cycles as they have wavefronts, and so do stores, so there is one port",
        "of each kind at most; and loads beside stores need as many as both together, so it is one and the same.",
        "Each cell: `python tools/port_study.py time KERNEL TOPOLOGY`, from the trace `tools/h200/KERNEL.yaml`, which",
        "was recorded from the machine code that was measured.",
        "",
    ]
    return "\n".join(lines)


def _named(what: list[str]) -> str:
    return " and ".join(what) if what else "none"


def main() -> None:
    """Write the page, or print a cell of it."""
    match sys.argv[1:]:
        case ["count", kernel, reads, writes]:
            print("{} / {}".format(*counted(kernel, int(reads), int(writes))))
        case ["time", kernel, topology]:
            print(second_pass(kernel, topology))
        case _:
            write_page("ports.md", page, __doc__)


if __name__ == "__main__":
    main()
