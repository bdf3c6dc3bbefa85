"""The five versions of one 16x16x16 product, those of traces/src, in a loop, by one warp or by several.

Every warp has tiles of its own. v1 takes its fragments from global memory; the others copy A and B into
shared memory first and the result out of it: v2 in rows of 32 bytes, v3 in rows of 48, v4 by ldmatrix and
shuffled stores, v5 as v4 with every index swizzled.
"""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel
from validation.corpus.tensor import BY_NAME, mma

_MODE = BY_NAME["m16n8k16_f16_f16"]
_SLOT = 3072


def _swizzled(index: str) -> str:
    """swizzle<3,1,3> of an index in halves."""
    return f"(({index}) ^ ((({index}) >> 3) & 8u))"


def _products(a: str, b: str) -> list[str]:
    return [
        "u32 c[2][2] = {{0u, 0u}, {0u, 0u}};",
        mma(_MODE, ["c[0][0]", "c[0][1]"], [f"{a}.{p}" for p in "xyzw"], [f"{b}.x", f"{b}.y"]),
        mma(_MODE, ["c[1][0]", "c[1][1]"], [f"{a}.{p}" for p in "xyzw"], [f"{b}.z", f"{b}.w"]),
    ]


def _body(version: int) -> list[str]:
    row = 24 if version == 3 else 16
    index = _swizzled if version == 5 else lambda text: text
    if version == 1:
        lines = [
            "const u32 *ga = in + 128u * warp + lane / 4u * 8u + lane % 4u, *gb = in + 2048u + 128u * warp + lane;"
        ]
        lines += ["uint4 fa, fb;"]
        for number, name in enumerate(("fa.x", "fa.y", "fa.z", "fa.w")):
            lines.append(
                f'asm volatile("ld.global.u32 %0, [%1];" : "=r"({name}) : "l"(ga + {(number % 2) * 64 + (number // 2) * 4}) : "memory");'
            )
        for number, name in enumerate(("fb.x", "fb.y", "fb.z", "fb.w")):
            lines.append(
                f'asm volatile("ld.global.u32 %0, [%1];" : "=r"({name}) : "l"(gb + {32 * number}) : "memory");'
            )
        lines += _products("fa", "fb")
        lines += [
            f'asm volatile("st.global.u32 [%0], %1;" :: "l"(out + 2048u + 128u * warp + lane / 4u * 8u + lane % 4u + {64 * j + 4 * i}u), '
            f'"r"(c[{i}][{j}]) : "memory");'
            for i in range(2)
            for j in range(2)
        ]
        return [*lines, "x ^= c[0][0] ^ c[1][1];"]
    slot = f"const u32 sa = base + {_SLOT}u * warp, sb = sa + 1024u, sc = sa + 2048u;"
    store = f"{row}u * (lane / 2u) + 8u * (lane % 2u)"
    load = f"{row}u * (lane % 16u) + 8u * (lane / 16u)"
    lines = [
        slot,
        "const uint4 ga = reinterpret_cast<const uint4 *>(in)[lane + 64u * warp], gb = reinterpret_cast<const uint4 *>(in)[lane + 64u * warp + 32u];",
        f"sts128(sa + 2u * {index(f'({store})')}, ga); sts128(sb + 2u * {index(f'({store})')}, gb);",
        "__syncthreads();",
        f"const uint4 fa = ldsm4(sa + 2u * {index(f'({load})')}), fb = ldsm4t(sb + 2u * {index(f'({load})')});",
        *_products("fa", "fb"),
    ]
    if version < 4:
        for i in range(2):
            for j in range(2):
                lines.append(
                    f"sts32(sc + 2u * (16u * (lane / 4u + {8 * j}u) + {8 * i}u + 2u * (lane % 4u)), c[{i}][{j}]);"
                )
    else:
        lines.append("const u64 target = (u64)(sc + 2u * " + index(f"({load})") + ");")
        for i, value in enumerate(("c[0][0]", "c[0][1]", "c[1][0]", "c[1][1]")):
            lines.append(
                f"sts32((u32)__shfl_sync(0xffffffffu, target, {8 * i}u + lane / 4u) + 4u * (lane % 4u), {value});"
            )
    lines += [
        "__syncthreads();",
        f"const uint4 r = lds128(sc + 2u * {index('(16u * (lane / 2u) + 8u * (lane % 2u))')});",
        "reinterpret_cast<uint4 *>(out)[512u + 32u * warp + lane] = r;",
        "x ^= r.x ^ r.w;",
    ]
    return lines


def kernels() -> list[Kernel]:
    """Five versions, by 1, 4 and 8 warps."""
    return [
        kernel(
            f"example_v{version}_w{warps}",
            "examples",
            warps,
            6 if warps == 1 else 3,
            "\n".join(_body(version)),
            setup="u32 x = tid;",
            sink="x",
            fill_bytes=_SLOT * warps,
            least_capability=80,
        )
        for version in range(1, 6)
        for warps in (1, 4, 8)
    ]
