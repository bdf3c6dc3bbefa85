"""The queue in front of the load/store unit: a clock after each of a run of accesses.

`queue_WHAT_...`: every warp that takes part makes 16 accesses back to back and reads the clock after each, so
that the access that found the queue full shows as a longer gap. On chosen sub-cores, with 1 to 4 warps each.
"""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel
from validation.corpus.memory import matrix_load, shared_load, shared_store

ACCESSES = 16
_SETUP = (
    "u32 y[16][4]; for (u32 j = 0; j < 64u; ++j) y[j / 4u][j % 4u] = tid * 5u + j;\n"
    "const u32 p = base + {stride}u * lane;"
)
_SHUFFLE = (
    'asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(y[{i}][0]) : "r"(y[{i}][1]) : "memory");'
)
_ATOMIC = 'asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(y[{i}][0]) : "r"(p), "r"(y[{i}][1]) : "memory");'
_CHOICES: tuple[tuple[int, tuple[int, ...] | None], ...] = (
    (1, None),
    (2, None),
    (4, None),
    (8, None),
    (16, (0, 4)),
    (16, (0, 4, 8, 12)),
    (4, (0, 2)),
    (8, (0, 2, 4, 6)),
)
"""Warps of the CTA, and which of them take part (None for all)."""


def _access(what: str, i: int) -> str:
    match what:
        case "lds32" | "lds64" | "lds128" | "lds32c4" | "lds32c8":
            return shared_load(int(what[3:].split("c")[0]), f"y[{i}]", "p")
        case "sts32" | "sts64" | "sts128" | "sts32c4" | "sts32c8":
            return shared_store(int(what[3:].split("c")[0]), f"y[{i}]", "p")
        case "ldsm1" | "ldsm4":
            return matrix_load(int(what[4:]), f"y[{i}]", "p", 512 * i)
        case "atoms":
            return _ATOMIC.format(i=i)
        case "shfl":
            return _SHUFFLE.format(i=i)
    first, _, second = what.partition("_")
    return _access(first if i % 2 == 0 else second, i)


def _stride(what: str) -> int:
    ways = int(what.partition("c")[2] or 1) if "_" not in what else 1
    width = 16 if "128" in what or "ldsm" in what else 8 if "64" in what else 4
    return width * ways


_WHAT = (
    "lds32", "lds64", "lds128", "lds32c4", "lds32c8", "sts32", "sts64", "sts128", "sts32c4", "sts32c8", "ldsm1", "ldsm4", "atoms", "shfl",
    "lds32_sts32", "lds128_sts128", "lds32_shfl", "lds128_shfl", "sts32_shfl", "lds32_atoms",
)  # fmt: skip


def kernels() -> list[Kernel]:
    """All queue kernels."""
    made = []
    for what in _WHAT:
        for warps, active in _CHOICES:
            lines = []
            for i in range(ACCESSES):
                lines += [_access(what, i), f"t[{i + 1}] = clk();"]
            where = (
                f"w{warps}"
                if active is None
                else f"w{len(active)}_on_" + "".join(str(s) for s in sorted({w % 4 for w in active}))
            )
            made.append(
                kernel(
                    f"queue_{what}_{where}",
                    "queue",
                    warps,
                    1,
                    "\n".join(lines),
                    setup=_SETUP.format(stride=_stride(what)),
                    sink=" ^ ".join(f"y[{j}][{k}]" for j in range(16) for k in range(4)),
                    fill_bytes=8192,
                    reads=ACCESSES + 2,
                    active=active,
                )
            )
    return made
