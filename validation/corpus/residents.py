"""Several CTAs on one SM: kernels of the other families, launched so that 2 to 8 of them share it."""

from __future__ import annotations

from validation.corpus import classics, memory, random_mixes, tiles
from validation.corpus.kernel import Kernel, kernel


def _simple(label: str, body: str, setup: str, sink: str, warps: int, ctas: int) -> Kernel:
    return kernel(
        f"resident_{label}_w{warps}_x{ctas}",
        "residents",
        warps,
        6,
        body,
        setup=setup,
        sink=sink,
        fill_bytes=8192,
        ctas=ctas,
    )


def kernels() -> list[Kernel]:
    """All of them."""
    made = []
    for ctas in (2, 4, 8):
        registers = "u32 y[8][4]; for (u32 j = 0; j < 32u; ++j) y[j / 4u][j % 4u] = tid * 7u + j;\nconst u32 p = base + 16u * lane;"
        sink = " ^ ".join(f"y[{j}][{i}]" for j in range(8) for i in range(4))
        for label, steps in (
            ("lds128", [memory.shared_load(128, f"y[{i}]", "p") for i in range(8)]),
            ("sts32", [memory.shared_store(32, f"y[{i}]", "p") for i in range(8)]),
            ("ldsm4", [memory.matrix_load(4, f"y[{i}]", "p", 512 * i) for i in range(8)]),
            ("barrier", ["__syncthreads();", "y[0][0] ^= lds32(p);", "__syncthreads();", "sts32(p, y[0][0]);"]),
        ):
            made += [_simple(label, "\n".join(steps), registers, sink, warps, ctas) for warps in (1, 2, 4)]
    for ctas in (2, 3, 4):
        made += [classics.transpose(layout, 4, ctas) for layout in ("plain", "swizzled")]
        made += [tiles.tile(layout, "through_registers", 2, 2, 32, ctas) for layout in ("plain", "swizzled")]
        made.append(tiles.tile("padded", "asynchronous", 4, 2, 32, ctas))
    everything = {family.name: family for family in random_mixes.FAMILIES}
    for number in range(900, 912):
        name = ("mix_shared", "mix_all", "mix_barrier")[number % 3]
        made.append(random_mixes.random_kernel(everything[name], number, 2 + number % 3, f"_x{2 + number % 3}"))
    return made
