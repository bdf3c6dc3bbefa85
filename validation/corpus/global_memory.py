"""Global memory as one SM sees it: loads that hit L1 or L2, stores, and asynchronous copies."""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel
from validation.corpus.memory import REGISTERS


def _latencies(length: int) -> list[Kernel]:
    """Every word that is read is below 4096, so that the address to read next is always the first."""
    made = []
    for label, operation in (("l1", "ld.global.ca"), ("l2", "ld.global.cg")):
        made.append(
            kernel(
                f"lat_ldg_{label}_{length}",
                "global",
                1,
                8,
                "\n".join(
                    [f'asm volatile("{operation}.u32 %0, [%1];" : "=r"(y) : "l"(in + p) : "memory"); p = y >> 12;']
                    * length
                ),
                setup="u32 p = lane >> 5, y;",
                sink="p",
                fill_bytes=0,
            )
        )
    return made


def _rates() -> list[Kernel]:
    """Global loads that hit L1 or L2, stores, and asynchronous copies, from one SM."""
    made = []
    registers = REGISTERS
    sink = " ^ ".join(f"y[{j}][{i}]" for j in range(8) for i in range(4))
    for warps in (1, 4, 8, 16):
        for label, operation in (("l1", "ca"), ("l2", "cg")):
            for n in (1, 4):
                vector = "" if n == 1 else ".v4"
                places = "%0" if n == 1 else "{%0,%1,%2,%3}"
                steps = [
                    f'asm volatile("ld.global.{operation}{vector}.u32 {places}, [%{n}];" : '
                    + ", ".join(f'"=r"(y[{i}][{k}])' for k in range(n))
                    + f' : "l"(q + {128 * n * i}) : "memory");'
                    for i in range(4)
                ]
                fold = "; ".join(f"y[4][0] ^= y[{i}][{k}]" for i in range(4) for k in range(n)) + ";"
                made.append(
                    kernel(
                        f"rate_ldg{32 * n}_{label}_w{warps}",
                        "global",
                        warps,
                        4,
                        "\n".join([*steps, fold]),
                        setup=registers + f"const u32 *q = in + {n}u * lane;",
                        sink=sink,
                        fill_bytes=0,
                    )
                )
        for n in (1, 4):
            vector = "" if n == 1 else ".v4"
            places = "%1" if n == 1 else "{%1,%2,%3,%4}"
            steps = [
                f'asm volatile("st.global{vector}.u32 [%0], {places};" :: "l"(q + {512 * i}), '
                + ", ".join(f'"r"(y[{i}][{k}])' for k in range(n))
                + ' : "memory");'
                for i in range(4)
            ]
            made.append(
                kernel(
                    f"rate_stg{32 * n}_w{warps}",
                    "global",
                    warps,
                    4,
                    "\n".join(steps),
                    setup=registers + f"u32 *q = out + 2048u + {n}u * tid;",
                    sink=sink,
                    fill_bytes=0,
                )
            )
        for size in (4, 16):
            cache = "ca" if size == 4 else "cg"
            steps = [
                f'asm volatile("cp.async.{cache}.shared.global [%0+{4096 * i % 16384}], [%1], {size};" :: "r"(p), "l"(q + {1024 * i}) : "memory");'
                for i in range(4)
            ] + ['asm volatile("cp.async.commit_group;\\n\\tcp.async.wait_group 0;" ::: "memory");']
            made.append(
                kernel(
                    f"rate_ldgsts{size}_w{warps}",
                    "global",
                    warps,
                    4,
                    "\n".join(steps),
                    setup=f"const u32 p = base + {size}u * (tid & 255u); const u32 *q = in + {size // 4}u * (tid & 255u);",
                    sink="lds32(p)",
                    fill_bytes=16384,
                    least_capability=80,
                )
            )
    return made


def kernels() -> list[Kernel]:
    """All microbenchmarks of global memory."""
    return [*_latencies(8), *_latencies(16), *_rates()]
