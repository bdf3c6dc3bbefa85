"""The tensor core: latency and interval of each mma.sync mode, alone and beside other units."""

from __future__ import annotations

from dataclasses import dataclass

from validation.corpus.kernel import Kernel, kernel


@dataclass(frozen=True)
class Mode:
    """An mma.sync mode with the 32-bit registers of its operands."""

    name: str
    ptx: str
    a: int
    b: int
    c: int
    least: int = 80


MODES = (
    Mode("m16n8k16_f32_f16", "m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4),
    Mode("m16n8k16_f16_f16", "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2),
    Mode("m16n8k16_f32_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4),
    Mode("m16n8k8_f32_f16", "m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, 75),
    Mode("m16n8k8_f16_f16", "m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2, 75),
    Mode("m16n8k8_f32_bf16", "m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4),
    Mode("m16n8k8_f32_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4),
    Mode("m16n8k4_f32_tf32", "m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4),
    Mode("m16n8k32_s32_s8", "m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4),
    Mode("m16n8k16_s32_s8", "m16n8k16.row.col.s32.s8.s8.s32", 2, 1, 4),
    Mode("m8n8k16_s32_s8", "m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2, 75),
)
BY_NAME = {mode.name: mode for mode in MODES}


def mma(mode: Mode, c: list[str], a: list[str], b: list[str]) -> str:
    """One mma.sync on 32-bit registers, accumulating into `c`."""
    n = mode.c
    constraint = "f" if "_f32_" in mode.name else "r"
    places = [", ".join(f"%{i}" for i in range(start, start + count)) for start, count in
              ((0, n), (n, mode.a), (n + mode.a, mode.b))]  # fmt: skip
    outs = ", ".join(f'"+{constraint}"({x})' for x in c[:n])
    ins = ", ".join(f'"r"({x})' for x in (*a[: mode.a], *b[: mode.b]))
    return (
        f'asm volatile("mma.sync.aligned.{mode.ptx} {{{places[0]}}}, {{{places[1]}}}, {{{places[2]}}}, {{{places[0]}}};"'
        f" : {outs} : {ins});"
    )


def accumulator_type(mode: Mode) -> str:
    """The C type of an accumulator register."""
    return "float" if "_f32_" in mode.name else "u32"


def _registers(prefix: str, count: int) -> list[str]:
    return [f"{prefix}[{i}]" for i in range(count)]


def _setup(mode: Mode, accumulators: int) -> str:
    c = accumulator_type(mode)
    return (
        f"{c} c[{accumulators}][4]; u32 a[4], b[2];\n"
        "for (u32 j = 0; j < 4u; ++j) a[j] = in[tid + 33u * j] & 0x03030303u;\n"
        "for (u32 j = 0; j < 2u; ++j) b[j] = in[tid + 29u * j + 7u] & 0x03030303u;\n"
        f"for (u32 j = 0; j < {4 * accumulators}u; ++j) c[j / 4u][j % 4u] = ({c})in[tid + j];"
    )


def _sink(mode: Mode, accumulators: int) -> str:
    return " ^ ".join(f"(u32)c[{j}][{i}]" for j in range(accumulators) for i in range(mode.c))


def chained(mode: Mode, length: int) -> Kernel:
    """One warp, each mma adding to the result of the one before."""
    step = mma(mode, _registers("c[0]", 4), _registers("a", 4), _registers("b", 2))
    return kernel(
        f"lat_mma_{mode.name}_{length}", "tensor", 1, 8, "\n".join([step] * length),
        setup=_setup(mode, 1), sink=_sink(mode, 1), fill_bytes=0, least_capability=mode.least,
    )  # fmt: skip


def independent(mode: Mode, warps: int, accumulators: int, count: int = 16) -> Kernel:
    """Several warps, each with a number of accumulators in turn, `count` mma an iteration."""
    steps = [
        mma(mode, _registers(f"c[{i % accumulators}]", 4), _registers("a", 4), _registers("b", 2)) for i in range(count)
    ]
    return kernel(
        f"thr_mma_{mode.name}_a{accumulators}_w{warps}" + ("_twice" if count == 32 else ""), "tensor", warps, 4, "\n".join(steps),
        setup=_setup(mode, accumulators), sink=_sink(mode, accumulators), fill_bytes=0, least_capability=mode.least,
    )  # fmt: skip


_BESIDE = {
    "ffma": 'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(f[{j}]) : "f"(f[6]), "f"(f[7]));',
    "iadd3": 'asm volatile("lop3.b32 %0, %0, %1, %2, 0xe8;" : "+r"(x[{j}]) : "r"(x[6 + {j} % 2]), "r"(x[5]));',
    "imad": 'asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x[{j}]) : "r"(x[6]), "r"(x[7]));',
    "lds": "x[{j}] ^= lds32(base + 4u * lane + 128u * {n}u);",
    "ldsm": "{{ const uint4 m = ldsm4(base + 16u * lane + 256u * {n}u); x[{j}] ^= m.x ^ m.y ^ m.z ^ m.w; }}",
    "shfl": 'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(x[{j}]));',
    "mufu": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f[{j}]));',
}


def beside(mode: Mode, other: str, each: int, warps: int) -> Kernel:
    """One mma, then `each` instructions of another unit, over and over."""
    lines = []
    for i in range(8):
        lines.append(mma(mode, _registers(f"c[{i % 4}]", 4), _registers("a", 4), _registers("b", 2)))
        lines += [_BESIDE[other].format(j=(i * each + k) % 4, n=i * each + k) for k in range(each)]
    setup = _setup(mode, 4) + (
        "\nu32 x[8]; float f[8];\n"
        "for (u32 j = 0; j < 8u; ++j) { x[j] = in[tid + 3u * j]; f[j] = (float)in[tid + 5u * j] * 1e-3f; }"
    )
    sink = _sink(mode, 4) + "".join(f" ^ x[{j}] ^ (u32)f[{j}]" for j in range(4))
    return kernel(
        f"mmaby_{mode.name}_{other}{each}_w{warps}", "tensor_beside", warps, 4, "\n".join(lines),
        setup=setup, sink=sink, least_capability=mode.least,
    )  # fmt: skip


def _operand_chain(mode: Mode, length: int) -> Kernel:
    """The result of one mma is the B operand of the next: another way out of the tensor core."""
    steps = []
    for i in range(length):
        steps.append(mma(mode, _registers(f"c[{i % 2}]", 4), _registers("a", 4), [f"c[{(i + 1) % 2}][0]", "c[1][1]"]))
    return kernel(
        f"lat_mma_{mode.name}_operand_{length}", "tensor", 1, 8, "\n".join(steps),
        setup=_setup(mode, 2), sink=_sink(mode, 2), fill_bytes=0, least_capability=mode.least,
    )  # fmt: skip


def kernels() -> list[Kernel]:
    """All tensor microbenchmarks."""
    made = [chained(mode, length) for mode in MODES for length in (8, 16)]
    for mode in MODES:
        made += [independent(mode, warps, n) for warps, n in ((1, 2), (1, 4), (1, 8), (4, 4), (8, 4), (16, 4))]
    made += [independent(mode, 16, 4, 32) for mode in MODES]
    made += [independent(MODES[0], warps, n) for warps, n in ((8, 1), (16, 1), (8, 2), (16, 2), (5, 4), (12, 4))]
    made += [_operand_chain(BY_NAME["m16n8k16_f16_f16"], length) for length in (8, 16)]
    for other, each in (
        ("ffma", 1), ("ffma", 4), ("iadd3", 1), ("iadd3", 2), ("imad", 1), ("imad", 2), ("lds", 1), ("ldsm", 1),
        ("ldsm", 2), ("shfl", 1), ("mufu", 1), ("ffma", 8),
    ):  # fmt: skip
        made += [beside(MODES[0], other, each, warps) for warps in (1, 4, 8, 16)]
    made += [beside(BY_NAME["m16n8k8_f32_f16"], other, 1, w) for other in ("ffma", "iadd3", "ldsm") for w in (4, 8)]
    return made
