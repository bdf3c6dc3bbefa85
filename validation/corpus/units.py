"""Latency and interval of each arithmetic unit: chains of one dependent instruction, and independent ones.

`lat_OP_N`: one warp, a loop of N instructions, each waiting for the one before; the difference of the two
lengths is free of the loop. `thr_OP_wN`: eight independent chains in every warp, N warps.
"""

from __future__ import annotations

from dataclasses import dataclass

from validation.corpus.kernel import Kernel, kernel


@dataclass(frozen=True)
class ArithmeticUnit:
    """An instruction as inline PTX: {x} is the chain's register, {a}, {b}, {c} are operands that never change."""

    name: str
    ptx: str
    kind: str = "r"  # the constraint of the chain's register: r, f, d or l
    least: int = 75


_U = ArithmeticUnit
UNITS = (
    _U("iadd3", "{{.reg .u32 s; add.u32 s, {x}, {a}; add.u32 {x}, s, {b};}}"),
    _U("iadd", "add.u32 {x}, {x}, {a};"),
    _U("lop3", "lop3.b32 {x}, {x}, {a}, {b}, 0xe8;"),
    _U("shf", "shf.l.wrap.b32 {x}, {x}, {a}, 5;"),
    _U("shl", "shl.b32 {x}, {x}, {a};"),
    _U("lea", "{{.reg .u32 s; shl.b32 s, {x}, 3; add.u32 {x}, s, {a};}}"),
    _U("prmt", "prmt.b32 {x}, {x}, {a}, 0x2130;"),
    _U("imnmx", "max.s32 {x}, {x}, {a};"),
    _U("iabs", "{{.reg .s32 s; abs.s32 s, {x}; xor.b32 {x}, s, {a};}}"),
    _U("isetp_sel", "{{.reg .pred p; setp.lt.u32 p, {x}, {a}; selp.u32 {x}, {b}, {c}, p;}}"),
    _U("fsetp_sel", "{{.reg .pred p; setp.lt.f32 p, {x}, {a}; selp.f32 {x}, {b}, {c}, p;}}", "f"),
    _U("plop3", "{{.reg .pred p, q, s; setp.lt.u32 p, {x}, {a}; setp.gt.u32 q, {x}, {b};"
       " xor.pred s, p, q; selp.u32 {x}, {b}, {c}, s;}}"),
    _U("imad", "mad.lo.u32 {x}, {x}, {a}, {b};"),
    _U("imad_hi", "mad.hi.u32 {x}, {x}, {a}, {b};"),
    _U("imad_wide", "{{.reg .u32 l, h; mov.b64 {{l, h}}, {x}; xor.b32 l, l, h; mul.wide.u32 {x}, l, {a};}}", "l"),
    _U("dp4a", "dp4a.u32.u32 {x}, {x}, {a}, {b};"),
    _U("popc", "{{.reg .u32 s; popc.b32 s, {x}; xor.b32 {x}, s, {a};}}"),
    _U("flo", "{{.reg .u32 s; bfind.u32 s, {x}; xor.b32 {x}, s, {a};}}"),
    _U("brev", "brev.b32 {x}, {x};"),
    _U("bfe", "{{.reg .u32 s; bfe.u32 s, {x}, 3, 20; xor.b32 {x}, s, {a};}}"),
    _U("ffma", "fma.rn.f32 {x}, {x}, {a}, {b};", "f"),
    _U("fadd", "add.rn.f32 {x}, {x}, {a};", "f"),
    _U("fmul", "mul.rn.f32 {x}, {x}, {a};", "f"),
    _U("fmnmx", "max.f32 {x}, {x}, {a};", "f"),
    _U("hfma2", "fma.rn.f16x2 {x}, {x}, {a}, {b};"),
    _U("hadd2", "add.rn.f16x2 {x}, {x}, {a};"),
    _U("hmul2", "mul.rn.f16x2 {x}, {x}, {a};"),
    _U("hfma2_bf16", "fma.rn.bf16x2 {x}, {x}, {a}, {b};", least=80),
    _U("hmnmx2", "max.f16x2 {x}, {x}, {a};", least=80),
    _U("dfma", "fma.rn.f64 {x}, {x}, {a}, {b};", "d"),
    _U("dadd", "add.rn.f64 {x}, {x}, {a};", "d"),
    _U("mufu_ex2", "ex2.approx.ftz.f32 {x}, {x};", "f"),
    _U("mufu_lg2", "lg2.approx.ftz.f32 {x}, {x};", "f"),
    _U("mufu_rcp", "{{.reg .f32 s; rcp.approx.ftz.f32 s, {x}; add.rn.f32 {x}, s, {a};}}", "f"),
    _U("mufu_rsq", "rsqrt.approx.ftz.f32 {x}, {x};", "f"),
    _U("mufu_sin", "sin.approx.ftz.f32 {x}, {x};", "f"),
    _U("mufu_tanh", "tanh.approx.f32 {x}, {x};", "f"),
    _U("i2f", "{{.reg .f32 s; cvt.rn.f32.s32 s, {x}; mov.b32 {x}, s;}}"),
    _U("f2i", "{{.reg .s32 s; cvt.rzi.s32.f32 s, {x}; mov.b32 {x}, s;}}", "f"),
    _U("i2f_f2i", "{{.reg .f32 s; cvt.rn.f32.s32 s, {x}; cvt.rzi.s32.f32 {x}, s;}}"),
    _U("f2f_f16", "{{.reg .b16 h; cvt.rn.f16.f32 h, {x}; cvt.f32.f16 {x}, h;}}", "f"),
    _U("f2fp_pack", "{{.reg .f32 s; mov.b32 s, {x}; cvt.rn.f16x2.f32 {x}, s, s;}}", least=80),
    _U("f2f_f64", "{{.reg .f64 s; cvt.f64.f32 s, {x}; cvt.rn.f32.f64 {x}, s;}}", "f"),
    _U("frnd", "cvt.rni.f32.f32 {x}, {x};", "f"),
    _U("shfl", "shfl.sync.bfly.b32 {x}, {x}, 1, 0x1f, 0xffffffff;"),
    _U("shfl_idx", "shfl.sync.idx.b32 {x}, {x}, {a}, 0x1f, 0xffffffff;"),
    _U("shfl_up", "shfl.sync.up.b32 {x}, {x}, 1, 0x0, 0xffffffff;"),
    _U("vote", "{{.reg .pred p; setp.ne.u32 p, {x}, {a}; vote.sync.ballot.b32 {x}, p, 0xffffffff;}}"),
    _U("vote_all", "{{.reg .pred p, q; setp.ne.u32 p, {x}, {a}; vote.sync.all.pred q, p, 0xffffffff;"
       " selp.u32 {x}, {b}, {c}, q;}}"),
    _U("match", "match.any.sync.b32 {x}, {x}, 0xffffffff;"),
    _U("redux", "redux.sync.add.u32 {x}, {x}, 0xffffffff;", least=80),
    _U("redux_min", "redux.sync.min.u32 {x}, {x}, 0xffffffff;", least=80),
)  # fmt: skip
_SLOW = ("match", "f2f_f64", "redux", "redux_min", "f2f_f16", "i2f_f2i")
_TYPES = {"r": "u32", "f": "float", "d": "double", "l": "u64"}
CHAINS = 8


def _step(unit: ArithmeticUnit, register: str, number: int) -> str:
    """One instruction on a chain; operands take turns, so that the compiler cannot merge two steps."""
    named = {"x": "%0", "a": "%1", "b": "%2", "c": "%3"}
    operand_kind = "r" if unit.kind == "l" else unit.kind
    operands = [f'"{operand_kind}"(k[{(number + i) % 4}])' for i in range(3)]
    return f'asm volatile("{unit.ptx.format(**named)}" : "+{unit.kind}"({register}) : {", ".join(operands)});'


def _setup(unit: ArithmeticUnit, chains: int) -> str:
    kind = _TYPES[unit.kind]
    operand = _TYPES["r" if unit.kind == "l" else unit.kind]
    scale = {"float": " * 1e-3f + 0.5f", "double": " * 1e-3 + 0.5"}
    return "\n".join(
        [
            f"{kind} x[{chains}]; {operand} k[4];",
            f"for (u32 j = 0; j < {chains}u; ++j) x[j] = ({kind})in[tid + 37u * j]{scale.get(kind, '')};",
            f"for (u32 j = 0; j < 4u; ++j) k[j] = ({operand})in[5u * lane + j + 1u]{scale.get(operand, '')};",
        ]
    )


def _sink(unit: ArithmeticUnit, chains: int) -> str:
    folded = "(u32)(x[{0}] ^ (x[{0}] >> 32))" if unit.kind == "l" else "(u32)x[{0}]"
    return " ^ ".join(folded.format(j) for j in range(chains))


def chained(unit: ArithmeticUnit, length: int) -> Kernel:
    """One warp, `length` dependent instructions an iteration."""
    return kernel(
        f"lat_{unit.name}_{length}", "latency", 1, 8, "\n".join(_step(unit, "x[0]", i) for i in range(length)),
        setup=_setup(unit, 1), sink=_sink(unit, 1), fill_bytes=0, least_capability=unit.least,
    )  # fmt: skip


def loop_length(unit: str) -> int:
    """Steps in the loop of a unit's throughput kernels."""
    return 16 if unit in _SLOW else 32


def independent(unit: ArithmeticUnit, warps: int, twice: bool = False, chains: int = CHAINS) -> Kernel:
    """Several warps, each with `chains` chains side by side; `twice` as many steps, to take the loop's cost off."""
    length = loop_length(unit.name) * (2 if twice else 1)
    body = "\n".join(_step(unit, f"x[{i % chains}]", i) for i in range(length))
    return kernel(
        f"thr_{unit.name}_w{warps}" + ("_twice" if twice else ""), "throughput", warps, {16: 2, 8: 4}.get(warps, 8), body,
        setup=_setup(unit, chains), sink=_sink(unit, chains), fill_bytes=0, least_capability=unit.least,
    )  # fmt: skip


def _pair(first: ArithmeticUnit, second: ArithmeticUnit, warps: int, ratio: int = 1) -> Kernel:
    """Instructions of two units side by side: do they share a pipe, or a port?"""
    lines = []
    setup = (
        _setup(first, 4).replace(" x[", " x1[").replace(" k[", " k1[").replace("x[j]", "x1[j]").replace("k[j]", "k1[j]")
    )
    setup += "\n" + _setup(second, 4).replace(" x[", " x2[").replace(" k[", " k2[").replace("x[j]", "x2[j]").replace(
        "k[j]", "k2[j]"
    )
    a = 0
    for b in range(16):
        for _ in range(ratio):
            lines.append(_step(first, f"x1[{a % 4}]", a).replace("(k[", "(k1["))
            a += 1
        lines.append(_step(second, f"x2[{b % 4}]", b).replace("(k[", "(k2["))
    sink = " ^ ".join(_sink(unit, 4).replace("x[", f"x{side}[") for side, unit in ((1, first), (2, second)))
    return kernel(
        f"pair_{first.name}_{second.name}_r{ratio}_w{warps}", "pairs", warps, 4, "\n".join(lines),
        setup=setup, sink=sink, fill_bytes=0, least_capability=max(first.least, second.least),
    )  # fmt: skip


_PAIRS = (
    ("iadd3", "imad"), ("iadd3", "ffma"), ("imad", "ffma"), ("iadd3", "hfma2"), ("imad", "hfma2"), ("ffma", "hfma2"),
    ("ffma", "mufu_ex2"), ("iadd3", "mufu_ex2"), ("mufu_ex2", "i2f"), ("mufu_ex2", "popc"), ("mufu_ex2", "shfl"),
    ("popc", "i2f"), ("popc", "shfl"), ("iadd3", "shfl"), ("lop3", "shf"), ("imad_wide", "imad"), ("imad_wide", "ffma"),
    ("dfma", "ffma"), ("dfma", "hfma2"), ("prmt", "lop3"), ("isetp_sel", "imad"), ("fadd", "ffma"), ("fmul", "fadd"),
    ("hfma2", "hfma2_bf16"), ("vote", "shfl"), ("redux", "shfl"), ("ffma", "imad_wide"),
)  # fmt: skip


def _register_banks() -> list[Kernel]:
    """FFMA and IMAD with operands from ever different registers, with and without one that repeats."""
    made = []
    for name, instruction, kind in (("ffma", "fma.rn.f32", "f"), ("imad", "mad.lo.u32", "r")):
        ctype = _TYPES[kind]
        for label, pick in (
            ("distinct", lambda i: (i % 24, (i * 7 + 5) % 24, (i * 5 + 11) % 24)),
            ("stride2", lambda i: ((2 * i) % 24, (2 * i + 8) % 24, (2 * i + 16) % 24)),
            ("stride4", lambda i: ((4 * i) % 24, (4 * i + 4) % 24, (4 * i + 8) % 24)),
            ("repeat1", lambda i: (0, (i * 7 + 5) % 24, (i * 5 + 11) % 24)),
            ("repeat2", lambda i: (0, 1, (i * 5 + 11) % 24)),
            ("same", lambda i: (i % 24, i % 24, i % 24)),
        ):
            lines = []
            for i in range(32):
                a, b, c = pick(i)
                lines.append(
                    f'asm volatile("{instruction} %0, %1, %2, %3;" : "=" "{kind}"(y[{i % 8}])'
                    f' : "{kind}"(k[{a}]), "{kind}"(k[{b}]), "{kind}"(k[{c}]));'
                )
            # The results of the last eight are used; the first are kept by taking part in a sum each quarter.
            body = []
            for i, line in enumerate(lines):
                body.append(line)
                if i % 8 == 7 and i < 31:
                    body += [f"z[{j}] += y[{j}];" for j in range(8)]
            scale = " * 1e-3f" if kind == "f" else ""
            for warps in (4, 8, 16):
                made.append(
                    kernel(
                        f"regs_{name}_{label}_w{warps}",
                        "registers",
                        warps,
                        4,
                        "\n".join(body),
                        setup=f"{ctype} k[24], y[8], z[8];\n"
                        f"for (u32 j = 0; j < 24u; ++j) k[j] = ({ctype})in[tid + 31u * j]{scale};\n"
                        "for (u32 j = 0; j < 8u; ++j) { y[j] = k[j]; z[j] = k[j + 8]; }",
                        sink=" ^ ".join(f"(u32)y[{j}] ^ (u32)z[{j}]" for j in range(8)),
                        fill_bytes=0,
                    )
                )
    return made


def kernels() -> list[Kernel]:
    """All microbenchmarks of arithmetic units."""
    by_name = {unit.name: unit for unit in UNITS}
    made = [chained(unit, length) for unit in UNITS for length in (16, 32)]
    for unit in UNITS:
        made += [independent(unit, warps) for warps in (1, 4, 8, 16)]
        made.append(independent(unit, 16, twice=True))
    for first, second in _PAIRS:
        made += [_pair(by_name[first], by_name[second], warps) for warps in (4, 16)]
    for first, second, ratio in (("ffma", "imad", 3), ("ffma", "iadd3", 3), ("iadd3", "imad", 2), ("ffma", "shfl", 4)):
        made += [_pair(by_name[first], by_name[second], 16, ratio)]
    return made + _register_banks()
