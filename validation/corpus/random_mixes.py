"""Random small kernels: a loop of instructions drawn by weight, on a pool of registers.

Everything follows from the kernel's name, through numbers whose sequence Python promises to keep. Loads read
from a part of shared memory that nobody writes or from the warp's own slot; stores and atomics go to the slot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from validation.corpus.kernel import Kernel, kernel
from validation.corpus.memory import matrix_load, matrix_store, shared_load, shared_store
from validation.corpus.tensor import BY_NAME, accumulator_type, mma

T = TypeVar("T")
READ_BYTES = 16384
SLOT_BYTES = 1024
_WARP_INSTRUCTIONS = 7000
"""About as many for both passes of a kernel."""


@dataclass(frozen=True)
class Family:
    """Weights of what is drawn, the number of kernels, and which warps counts occur."""

    name: str
    count: int
    weights: dict[str, float]
    warps: tuple[int, ...] = (1, 2, 4, 4, 8, 8, 16)
    roles: bool = False


_SHARED = {"load": 4.0, "store": 2.0, "ldsm": 2.0, "atomic": 0.3}
_ALU = {"integer": 3.0, "logic": 2.0, "shift": 1.5, "imad": 2.0, "wide": 0.6, "ffma": 4.0, "fadd": 1.0, "half": 1.5,
        "mufu": 0.6, "convert": 0.4, "popc": 0.4, "compare": 1.0}  # fmt: skip


def _scaled(weights: dict[str, float], factor: float) -> dict[str, float]:
    return {name: weight * factor for name, weight in weights.items()}


FAMILIES = (
    Family("mix_shared", 50, {**_SHARED, "logic": 1.0, "ffma": 0.7}),
    Family("mix_alu", 40, _ALU),
    Family("mix_tensor", 40, {"mma": 4.0, "ldsm": 2.0, "ffma": 1.0, "logic": 0.6}),
    Family("mix_shuffle", 30, {"shuffle": 4.0, "vote": 0.5, **_scaled(_ALU, 0.2), "load": 1.5}),
    Family("mix_barrier", 40, {"barrier": 2.5, **_SHARED, **_scaled(_ALU, 0.3)}, (1, 2, 4, 8, 8, 16)),
    Family("mix_shared_alu", 40, {**_SHARED, **_scaled(_ALU, 0.6)}),
    Family("mix_all", 60, {**_SHARED, **_scaled(_ALU, 0.5), "mma": 2.0, "shuffle": 1.5, "barrier": 0.8}),
    Family("mix_roles", 40, {**_SHARED, **_scaled(_ALU, 0.4), "mma": 1.5, "shuffle": 1.0}, (2, 4, 8, 8, 16), True),
)
_MODES = ("m16n8k16_f32_f16", "m16n8k16_f16_f16", "m16n8k8_f32_f16", "m16n8k8_f32_tf32", "m16n8k32_s32_s8",
          "m16n8k16_f32_bf16")  # fmt: skip


class _Draw:
    """Draws that stay the same in every Python: only random() and a text seed are promised."""

    def __init__(self, seed: str):
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        return int(self._random.random() * n)

    def of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def weighted(self, weights: dict[str, float]) -> str:
        at = self._random.random() * sum(weights.values())
        for name, weight in weights.items():
            at -= weight
            if at < 0:
                return name
        return next(iter(weights))


class _Body:
    """Writes the steps of one kernel."""

    def __init__(self, draw: _Draw, mode: str, least: int):
        self.draw = draw
        self.mode = BY_NAME[mode]
        self.least = max(least, self.mode.least)
        self.number = 0

    def step(self, what: str) -> list[str]:
        d, i = self.draw, self.number
        self.number += 1
        x, other, third = f"x[{d.below(8)}]", f"x[{d.below(8)}]", f"k[{d.below(4)}]"
        f, g = f"f[{d.below(6)}]", f"f[{d.below(6)}]"
        h = f"h[{d.below(4)}]"

        def asm(text: str, kind: str, register: str, *operands: tuple[str, str]) -> str:
            ins = ", ".join(f'"{k}"({name})' for k, name in operands)
            return f'asm volatile("{text}" : "+{kind}"({register}) : {ins});'

        match what:
            case "integer":
                return [asm("add.u32 %0, %0, %1;", "r", x, ("r", d.of([other, third])))]
            case "logic":
                return [
                    asm(
                        f"lop3.b32 %0, %0, %1, %2, {d.of(['0x96', '0xe8', '0xca'])};",
                        "r",
                        x,
                        ("r", other),
                        ("r", third),
                    )
                ]
            case "shift":
                return [asm(f"shf.l.wrap.b32 %0, %0, %1, {1 + d.below(30)};", "r", x, ("r", third))]
            case "imad":
                return [asm("mad.lo.u32 %0, %0, %1, %2;", "r", x, ("r", third), ("r", other))]
            case "wide":
                return [asm("mad.wide.u32 %0, %1, %2, %0;", "l", "w", ("r", x), ("r", third))]
            case "ffma":
                return [asm("fma.rn.f32 %0, %0, %1, %2;", "f", f, ("f", "g[0]"), ("f", d.of([g, "g[1]"])))]
            case "fadd":
                return [
                    asm(
                        d.of(["add.rn.f32 %0, %0, %1;", "mul.rn.f32 %0, %0, %1;", "max.f32 %0, %0, %1;"]),
                        "f",
                        f,
                        ("f", g),
                    )
                ]
            case "half":
                return [asm("fma.rn.f16x2 %0, %0, %1, %2;", "r", h, ("r", "k[0]"), ("r", "k[1]"))]
            case "mufu":
                return [
                    asm(
                        d.of(
                            ["ex2.approx.ftz.f32 %0, %0;", "rcp.approx.ftz.f32 %0, %0;", "rsqrt.approx.ftz.f32 %0, %0;"]
                        ),
                        "f",
                        f,
                    )
                ]
            case "convert":
                return [asm("cvt.rn.f32.s32 %0, %1;", "f", f, ("r", x))]
            case "popc":
                return [asm("popc.b32 %0, %0;", "r", x)]
            case "compare":
                return [
                    asm(
                        "{.reg .pred p; setp.lt.u32 p, %0, %1; selp.u32 %0, %2, %1, p;}",
                        "r",
                        x,
                        ("r", other),
                        ("r", third),
                    )
                ]
            case "mma":
                c = f"c[{d.below(3)}]"
                return [
                    mma(self.mode, [f"{c}[{j}]" for j in range(4)], [f"a[{j}]" for j in range(4)], ["b[0]", "b[1]"])
                ]
            case "shuffle":
                return [asm(f"shfl.sync.{d.of(['bfly', 'up', 'down', 'idx'])}.b32 %0, %0, {1 << d.below(5)}, "
                            "0x1f, 0xffffffff;", "r", x)]  # fmt: skip
            case "vote":
                return [
                    asm(
                        "{.reg .pred p; setp.ne.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}",
                        "r",
                        x,
                        ("r", third),
                    )
                ]
            case "barrier":
                return ["__syncthreads();"]
            case "atomic":
                return [f'asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(slot + 4u * lane), "r"({x}) : "memory");']
        return self._memory(what, f"y{i}")

    def _memory(self, what: str, y: str) -> list[str]:
        """Shared accesses: the address register of a pattern, and an offset in the instruction."""
        d = self.draw
        x, other = f"x[{d.below(8)}]", f"x[{d.below(8)}]"
        if what == "ldsm":
            count = d.of((1, 2, 4, 4))
            load = matrix_load(count, y, d.of(("rows", "rows", "rows_plain")), 512 * d.below(8), d.below(3) == 0)
            if d.below(3) == 0:
                return [f"u32 {y}[4];", load, *(f"a[{j}] = {y}[{j}];" for j in range(count))]
            return [f"u32 {y}[4];", load, *(f"x[{d.below(8)}] ^= {y}[{j}];" for j in range(count))]
        width = d.of((32, 32, 64, 128))
        words = width // 32
        if what == "load":
            pattern = d.of(("clean", "clean", "two", "four", "spread", "one")) + str(width)
            address, offset = (pattern, 16 * d.below(64)) if d.below(4) else (f"slot + {width // 8}u * lane", 0)
            load = shared_load(width, y, address, offset)
            return [f"u32 {y}[{words}];", load, *(f"x[{d.below(8)}] ^= {y}[{j}];" for j in range(words))]
        source = f"u32 {y}[4] = {{{x}, {other}, {x}, {other}}};"
        if self.least >= 90 and d.below(4) == 0:
            return [source, matrix_store(d.of((1, 2, 4)), y, "slot + 16u * lane")]
        scatter = (
            d.of(("lane", "lane", "(lane * 2u & 31u) + (lane >> 4)", "(lane ^ (lane >> 3))")) if width < 128 else "lane"
        )
        return [source, shared_store(width, y, f"slot + {width // 8}u * ({scatter})", 0)]


_ADDRESSES = "\n".join(
    [
        *(f"const u32 clean{w} = base + {w // 8}u * lane;" for w in (32, 64, 128)),
        *(f"const u32 two{w} = base + {w // 4}u * lane;" for w in (32, 64, 128)),
        *(f"const u32 four{w} = base + {w // 2}u * lane;" for w in (32, 64, 128)),
        *(f"const u32 spread{w} = base + {w // 8}u * (in[lane] & 255u);" for w in (32, 64, 128)),
        *(f"const u32 one{w} = base + {w // 8}u * (lane >> 3);" for w in (32, 64, 128)),
        "const u32 rows = base + 80u * lane, rows_plain = base + 64u * lane;",
        f"const u32 slot = base + {READ_BYTES}u + {SLOT_BYTES}u * warp;",
    ]
)


def _setup(mode: str) -> str:
    c = accumulator_type(BY_NAME[mode])
    return (
        f"{_ADDRESSES}\n"
        f"u32 x[8], k[4], h[4], a[4], b[2]; float f[6], g[2]; u64 w = tid; {c} c[3][4];\n"
        "for (u32 j = 0; j < 8u; ++j) x[j] = tid * 3u + j;\n"
        "for (u32 j = 0; j < 4u; ++j) { k[j] = in[lane + j]; h[j] = in[lane + 8u + j]; a[j] = in[lane + 16u + j]; }\n"
        "for (u32 j = 0; j < 6u; ++j) f[j] = (float)(tid + j) * 1e-3f;\n"
        "b[0] = k[0]; b[1] = k[1]; g[0] = 0.5f + (float)k[2] * 1e-5f; g[1] = (float)k[3] * 1e-3f;\n"
        f"for (u32 j = 0; j < 12u; ++j) c[j / 4u][j % 4u] = ({c})(tid + j);"
    )


_SINK = " ^ ".join(
    [*(f"x[{j}]" for j in range(8)), *(f"(u32)f[{j}]" for j in range(6)), *(f"h[{j}]" for j in range(4)), "(u32)(w ^ (w >> 32))",
     *(f"(u32)c[{j // 4}][{j % 4}]" for j in range(12)), *(f"a[{j}]" for j in range(4))]
)  # fmt: skip


def random_kernel(family: Family, number: int, ctas: int = 1, suffix: str = "") -> Kernel:
    """Kernel `number` of a family."""
    name = f"{family.name}_{number:03d}"
    draw = _Draw(f"gpuemu {name}")
    warps = draw.of(family.warps)
    if ctas > 1:
        warps = min(warps, 8)
    mode = draw.of(_MODES)
    # A kernel's mixture leans its own way, so that a family is more than its mean.
    weights = {what: weight * (0.2 + 1.6 * draw.below(1000) / 1000) for what, weight in family.weights.items()}
    steps = 8 + draw.below(40)
    body = _Body(draw, mode, 75 if number % 3 else 90)

    def block(count: int) -> list[str]:
        return [line for _ in range(count) for line in body.step(draw.weighted(weights))]

    lines: list[str]
    if family.roles:
        lines = [
            f"if ((warp & {draw.of((1, 1, 2, 4)) if warps > 4 else 1}u) == 0u) {{",
            *block(steps),
            "} else {",
            *block(steps),
            "}",
        ]
        if draw.below(2):
            lines.append("__syncthreads();")
    elif draw.below(3) == 0:
        # Half the kernels' blocks are straight; some close with a phase of their own behind a barrier or not.
        lines = ["{", *block(steps // 2), "}", "{", *block(steps - steps // 2), "}"]
    else:
        lines = block(steps)
    per_iteration = max(1, len([line for line in lines if "asm" in line or "^=" in line]))
    iterations = max(2, min(48, _WARP_INSTRUCTIONS // (2 * warps * ctas * per_iteration)))
    slots = READ_BYTES + SLOT_BYTES * warps
    return kernel(
        name + suffix, family.name if ctas == 1 else "residents", warps, iterations, "\n".join(lines), setup=_setup(mode),
        sink=_SINK, fill_bytes=slots, ctas=ctas, least_capability=body.least,
    )  # fmt: skip


def kernels() -> list[Kernel]:
    """All random kernels."""
    return [random_kernel(family, number) for family in FAMILIES for number in range(family.count)]
