"""Tile loops of matrix products on the tensor core: layouts, ways of copying, warps and sizes.

A warp owns 16 rows of A; all share B. Rows are K halves long. `plain` rows follow each other, `padded` rows
are 16 bytes apart, `swizzled` rows XOR the number of their 16-byte chunk.
"""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel
from validation.corpus.tensor import BY_NAME, mma

LAYOUTS = ("plain", "padded", "swizzled")
COPIES = ("resident", "through_registers", "asynchronous")


def _row_bytes(k: int, layout: str) -> int:
    return 2 * k + (16 if layout == "padded" else 0)


def place(k: int, layout: str, row: str, chunk: str) -> str:
    """The byte offset of a 16-byte chunk of a row."""
    if layout == "swizzled":
        chunk = f"(({chunk}) ^ (({row}) & 7u))" if k == 64 else f"(({chunk}) ^ ((({row}) >> 1) & 3u))"
    return f"{_row_bytes(k, layout)}u * ({row}) + 16u * ({chunk})"


def _fragments(k: int, n: int, layout: str, a: str, b: str) -> list[str]:
    """Loads of a warp's A and B fragments, and the products, for all of K."""
    mode = BY_NAME["m16n8k16_f32_f16"]
    lines = []
    for step in range(k // 16):
        lines.append(
            f"{{ const uint4 fa = ldsm4({a} + {place(k, layout, 'warp * 16u + lane % 16u', f'{2 * step}u + lane / 16u')});"
        )
        for pair in range(n // 2):
            row = f"{16 * pair}u + lane % 8u + 8u * (lane / 16u)"
            lines.append(
                f"{{ const uint4 fb = ldsm4({b} + {place(k, layout, row, f'{2 * step}u + (lane / 8u) % 2u')});"
            )
            for half, names in enumerate((("fb.x", "fb.y"), ("fb.z", "fb.w"))):
                c = [f"c[{2 * pair + half}][{j}]" for j in range(4)]
                lines.append(mma(mode, c, ["fa.x", "fa.y", "fa.z", "fa.w"], list(names)))
            lines.append("}")
        lines.append("}")
    return lines


def _copy(k: int, n: int, warps: int, layout: str, a: str, b: str, asynchronous: bool) -> list[str]:
    """Global to shared, 16 bytes a thread and turn."""
    threads, chunks = 32 * warps, k // 8
    lines = []
    for place_name, rows in ((a, 16 * warps), (b, 8 * n)):
        total = rows * chunks
        for first in range(0, total, threads):
            guard = f"if (tid + {first}u < {total}u) " if first + threads > total else ""
            where = f"{place_name} + " + place(
                k, layout, f"(tid + {first}u) / {chunks}u", f"(tid + {first}u) % {chunks}u"
            )
            source = f"in + ((4u * (tid + {first}u) + 1024u * (u32)i) & 8191u)"
            if asynchronous:
                lines.append(
                    f'{guard}asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"({where}), "l"({source}) : "memory");'
                )
            else:
                lines.append(f"{guard}sts128({where}, *reinterpret_cast<const uint4 *>({source}));")
    return lines


def tile(layout: str, copy: str, warps: int, n: int, k: int, ctas: int = 1, iterations: int | None = None) -> Kernel:
    """One tile loop; `n` blocks of 8 columns."""
    a_bytes = 16 * warps * _row_bytes(k, layout)
    b_bytes = 8 * n * _row_bytes(k, layout)
    stage = a_bytes + b_bytes
    setup = f"float c[{n}][4]; for (u32 j = 0; j < {4 * n}u; ++j) c[j / 4u][j % 4u] = 0.0f;\n"
    stages = 2 if copy == "asynchronous" else 1
    wait = 'asm volatile("cp.async.commit_group;" ::: "memory");'
    if copy == "resident":
        lines = _fragments(k, n, layout, "base", f"base + {a_bytes}u")
        setup += "__syncthreads();"
    elif copy == "through_registers":
        lines = [
            *_copy(k, n, warps, layout, "base", f"(base + {a_bytes}u)", False),
            "__syncthreads();",
            *_fragments(k, n, layout, "base", f"base + {a_bytes}u"),
            "__syncthreads();",
        ]
    else:
        lines = [
            f"const u32 now = base + (i & 1 ? {stage}u : 0u), next = base + (i & 1 ? 0u : {stage}u);",
            *_copy(k, n, warps, layout, "next", f"(next + {a_bytes}u)", True),
            wait,
            'asm volatile("cp.async.wait_group 1;" ::: "memory");',
            "__syncthreads();",
            *_fragments(k, n, layout, "now", f"now + {a_bytes}u"),
            "__syncthreads();",
        ]
    iterations = iterations or {1: 12, 2: 8, 4: 6, 8: 4, 16: 2}[warps]
    return kernel(
        f"tile_{layout}_{copy}_k{k}_n{n}_w{warps}" + (f"_x{ctas}" if ctas > 1 else ""),
        "tile" if ctas == 1 else "residents", warps, iterations, "\n".join(lines), setup=setup,
        sink=" ^ ".join(f"(u32)c[{j}][{i}]" for j in range(n) for i in range(4)), fill_bytes=stage * stages, ctas=ctas,
        least_capability=80,
    )  # fmt: skip


def big_tile(layout: str) -> Kernel:
    """The 128x256x32 tile: 8 warps as 2x4, 64x64 of C each, from a resident tile."""
    k = 32
    mode = BY_NAME["m16n8k16_f32_f16"]
    a_bytes = 128 * _row_bytes(k, layout)
    lines = []
    for step in range(2):
        lines.append("{ uint4 fa[4];")
        for m in range(4):
            lines.append(
                f"fa[{m}] = ldsm4(base + {place(k, layout, f'(warp / 4u) * 64u + {16 * m}u + lane % 16u', f'{2 * step}u + lane / 16u')});"
            )
        for pair in range(4):
            row = f"(warp % 4u) * 64u + {16 * pair}u + lane % 8u + 8u * (lane / 16u)"
            lines.append(
                f"{{ const uint4 fb = ldsm4(base + {a_bytes}u + {place(k, layout, row, f'{2 * step}u + (lane / 8u) % 2u')});"
            )
            for m in range(4):
                for half, names in enumerate((("fb.x", "fb.y"), ("fb.z", "fb.w"))):
                    c = [f"c[{m * 8 + 2 * pair + half}][{j}]" for j in range(4)]
                    lines.append(mma(mode, c, [f"fa[{m}].{p}" for p in "xyzw"], list(names)))
            lines.append("}")
        lines.append("}")
    return kernel(
        f"tile_128x256x32_{layout}", "tile", 8, 2, "\n".join(lines),
        setup="float c[32][4]; for (u32 j = 0; j < 128u; ++j) c[j / 4u][j % 4u] = 0.0f;",
        sink=" ^ ".join(f"(u32)c[{j}][{i}]" for j in range(32) for i in range(4)),
        fill_bytes=384 * _row_bytes(k, layout), least_capability=80,
    )  # fmt: skip


def kernels() -> list[Kernel]:
    """All tile loops of lone CTAs."""
    made = [
        tile(layout, copy, warps, n, 32)
        for layout in LAYOUTS for copy in COPIES for warps in (1, 2, 4, 8) for n in (2, 4)
    ]  # fmt: skip
    made += [tile(layout, copy, warps, 4, 64) for layout in LAYOUTS for copy in COPIES for warps in (1, 4, 8)]
    return made + [big_tile(layout) for layout in LAYOUTS]
