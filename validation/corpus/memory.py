"""Shared memory and constants: latency by pointer chase, rate by width, conflict and warps."""

from __future__ import annotations

from validation.corpus.kernel import INPUT_WORDS, Kernel, kernel

_SUB_CORES = ((0,), (0, 1), (0, 2), (0, 1, 2, 3))
_CLOBBER = '"memory"'
_ZERO_WORD = INPUT_WORDS - 8
REGISTERS = "u32 y[8][4]; for (u32 j = 0; j < 32u; ++j) y[j / 4u][j % 4u] = tid * 7u + j;\n"


def shared_load(width: int, target: str, address: str, offset: int = 0) -> str:
    """A shared load of 32, 64 or 128 bits that the compiler keeps, into target[0..]; offset in bytes."""
    n = width // 32
    vector = {1: "", 2: ".v2", 4: ".v4"}[n]
    names = ", ".join(f"%{i}" for i in range(n))
    names = names if n == 1 else f"{{{names}}}"
    outs = ", ".join(f'"=r"({target}[{i}])' for i in range(n))
    return f'asm volatile("ld.volatile.shared{vector}.u32 {names}, [%{n}+{offset}];" : {outs} : "r"({address}) : {_CLOBBER});'


def shared_store(width: int, source: str, address: str, offset: int = 0) -> str:
    """A shared store of 32, 64 or 128 bits from source[0..]."""
    n = width // 32
    vector = {1: "", 2: ".v2", 4: ".v4"}[n]
    names = ", ".join(f"%{i + 1}" for i in range(n))
    names = names if n == 1 else f"{{{names}}}"
    ins = ", ".join(f'"r"({source}[{i}])' for i in range(n))
    return (
        f'asm volatile("st.volatile.shared{vector}.u32 [%0+{offset}], {names};" :: "r"({address}), {ins} : {_CLOBBER});'
    )


def matrix_load(count: int, target: str, address: str, offset: int = 0, transposed: bool = False) -> str:
    """An ldmatrix of 1, 2 or 4 matrices into target[0..]."""
    names = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"=r"({target}[{i}])' for i in range(count))
    trans = ".trans" if transposed else ""
    return (
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%{count}+{offset}];"'
        f' : {outs} : "r"({address}) : {_CLOBBER});'
    )


def matrix_store(count: int, source: str, address: str, offset: int = 0) -> str:
    """An stmatrix of 1, 2 or 4 matrices (sm_90)."""
    names = ", ".join(f"%{i + 1}" for i in range(count))
    ins = ", ".join(f'"r"({source}[{i}])' for i in range(count))
    return (
        f'asm volatile("stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%0+{offset}], {{{names}}};"'
        f' :: "r"({address}), {ins} : {_CLOBBER});'
    )


def _chase(name: str, load: str, address: str, length: int, write_bytes: int, least: int = 75) -> Kernel:
    """Every word that a lane reads holds the address to read next, which is the same one."""
    setup = (
        f"u32 p = base + {address}; u32 y[4];\n"
        f"for (u32 j = 0; j < {write_bytes // 4}u; ++j) sts32(p + 4u * j, p);\n"
        "__syncthreads();"
    )
    return kernel(
        f"lat_{name}_{length}", "memory_latency", 1, 8, "\n".join([load + " p = y[0];"] * length),
        setup=setup, sink="p", fill_bytes=16384, least_capability=least,
    )  # fmt: skip


def _latencies(length: int) -> list[Kernel]:
    made = []
    for ways in (1, 2, 4, 8, 16, 32):
        made.append(_chase(f"lds32_c{ways}", shared_load(32, "y", "p"), _conflicted(32, ways), length, 4))
    for ways in (1, 2, 4):
        made.append(_chase(f"lds64_c{ways}", shared_load(64, "y", "p"), _conflicted(64, ways), length, 8))
        made.append(_chase(f"lds128_c{ways}", shared_load(128, "y", "p"), _conflicted(128, ways), length, 16))
    for count in (1, 2, 4):
        # All rows hold one address, so that every lane goes on with the row it began with.
        made.append(
            kernel(
                f"lat_ldsm{count}_{length}",
                "memory_latency",
                1,
                8,
                "\n".join([matrix_load(count, "y", "p") + " p = y[0];"] * length),
                setup="u32 p = base, y[4];\nfor (u32 j = 0; j < 16u; ++j) sts32(base + 4u * (16u * lane + j), base);\n"
                "__syncthreads();",
                sink="p",
                fill_bytes=4096,
            )
        )
    atomic = 'asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(y[0]) : "r"(p), "r"(zero) : "memory"); p = y[0];'
    exchange = 'asm volatile("atom.shared.exch.b32 %0, [%1], %2;" : "=r"(y[0]) : "r"(p), "r"(p) : "memory"); p = y[0];'
    compare = (
        'asm volatile("atom.shared.cas.b32 %0, [%1], %2, %2;" : "=r"(y[0]) : "r"(p), "r"(p) : "memory"); p = y[0];'
    )
    for label, step in (("atoms_add", atomic), ("atoms_exch", exchange), ("atoms_cas", compare)):
        for ways in (1, 4):
            if label == "atoms_add":
                step = step.replace('"r"(zero)', '"r"(in_zero)')
            made.append(
                kernel(
                    f"lat_{label}_c{ways}_{length}",
                    "memory_latency",
                    1,
                    8,
                    "\n".join([step] * length),
                    setup=f"u32 p = base + {_conflicted(32, ways)}, y[1]; const u32 in_zero = in[{_ZERO_WORD}];\n"
                    "sts32(p, p); __syncthreads();",
                    sink="p",
                    fill_bytes=16384,
                )
            )
    made.append(
        kernel(
            f"lat_ldc_{length}",
            "memory_latency",
            1,
            8,
            "\n".join([f"p = ldc_{length}_table[p];"] * length),
            helpers=f"__constant__ u32 ldc_{length}_table[64] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0}};",
            setup=f"u32 p = in[{_ZERO_WORD}];",
            sink="p",
            fill_bytes=0,
        )
    )
    return made


def _conflicted(width: int, ways: int) -> str:
    """A lane's byte offset such that an access of this width meets conflicts of `ways` within each group."""
    return f"{width // 8 * ways}u * lane"


def _rate(
    label: str, steps: list[str], setup: str, sink: str, warps: int, active: tuple[int, ...] | None, least: int = 75,
    iterations: int = 8, family: str = "memory_rate",
) -> Kernel:  # fmt: skip
    suffix = (
        f"w{warps}"
        if active is None
        else f"w{len(active)}_on_" + "".join(str(w) for w in sorted({w % 4 for w in active}))
    )
    return kernel(
        f"rate_{label}_{suffix}", family, warps, iterations, "\n".join(steps), setup=setup, sink=sink,
        fill_bytes=16384, active=active, least_capability=least,
    )  # fmt: skip


def _shapes(label: str, steps: list[str], setup: str, sink: str, least: int = 75, family: str = "memory_rate",
            counts: tuple[int, ...] = (1, 4, 8, 16)) -> list[Kernel]:  # fmt: skip
    """The kernels of these shapes on whole CTAs and on chosen sub-cores."""
    made = [_rate(label, steps, setup, sink, warps, None, least, 8 if warps <= 4 else 4, family) for warps in counts]
    made += [_rate(label, steps, setup, sink, 16, tuple(range(0, 4 * n, 4)), least, 8, family) for n in (2, 4)]
    made += [
        _rate(label, steps, setup, sink, 8, tuple(w for w in range(8) if w % 4 in subs), least, 8, family)
        for subs in ((0, 1), (0, 2))
    ]
    return made


def _rates() -> list[Kernel]:
    registers = REGISTERS
    sink = " ^ ".join(f"y[{j}][{i}]" for j in range(8) for i in range(4))
    made = []
    for width in (32, 64, 128):
        for ways in (1, 2, 4) if width > 32 else (1, 2, 4, 8, 32):
            address = registers + f"const u32 p = base + {_conflicted(width, ways)};"
            loads = [shared_load(width, f"y[{i % 8}]", "p", 0) for i in range(8)]
            stores = [shared_store(width, f"y[{i % 8}]", "p", 0) for i in range(8)]
            made += _shapes(f"lds{width}_c{ways}", loads, address, sink)
            made += _shapes(f"sts{width}_c{ways}", stores, address, sink)
            for label, steps in ((f"lds{width}_c{ways}", loads), (f"sts{width}_c{ways}", stores)):
                # Twice as many steps: the difference excludes the loop and the accesses in flight at its end.
                made += [_rate(f"{label}_twice", steps * 2, address, sink, warps, None) for warps in (1, 4)]
    for count in (1, 2, 4):
        rows = registers + "const u32 p = base + 16u * lane;"
        made += _shapes(f"ldsm{count}", [matrix_load(count, f"y[{i}]", "p", 512 * i) for i in range(8)], rows, sink)
        made += _shapes(
            f"stsm{count}", [matrix_store(count, f"y[{i}]", "p", 512 * i) for i in range(8)], rows, sink, 90
        )
    for ways in (1, 4):
        address = registers + f"const u32 p = base + {_conflicted(32, ways)};"
        returning = [
            f'asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(y[{i}][0]) : "r"(p), "r"(y[{i}][1]) : "memory");'
            for i in range(8)
        ]
        silent = [
            f'asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(p), "r"(y[{i}][0]) : "memory");' for i in range(8)
        ]
        made += _shapes(f"atoms_c{ways}", returning, address, sink)
        made += _shapes(f"red_c{ways}", silent, address, sink)
    shuffles = [f'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(y[{i}][0]));' for i in range(8)]
    made += _shapes("shfl", shuffles, registers + "const u32 p = base;", sink)
    return made


def _mixes() -> list[Kernel]:
    """Loads and stores of one warp or of different warps, in several ratios; loads beside shuffles."""
    registers = REGISTERS
    sink = " ^ ".join(f"y[{j}][{i}]" for j in range(8) for i in range(4))
    made = []
    for width in (32, 128):
        address = registers + f"const u32 p = base + {width // 8}u * lane;"
        for loads, stores in ((1, 1), (2, 1), (4, 1), (1, 2), (1, 4)):
            steps = []
            for i in range(12 // (loads + stores)):
                steps += [shared_load(width, f"y[{(i * loads + k) % 4}]", "p", 0) for k in range(loads)]
                steps += [shared_store(width, f"y[{4 + (i * stores + k) % 4}]", "p", 4096) for k in range(stores)]
            label = f"own_{width}_l{loads}s{stores}"
            made += _shapes(label, steps, address, sink, family="memory_mix", counts=(1, 4, 8))
        split = [
            f"if (((warp / {4}u) & 1u) == 0u) {{",
            *[shared_load(width, f"y[{i}]", "p", 0) for i in range(8)],
            "} else {",
            *[shared_store(width, f"y[{i}]", "p", 4096) for i in range(8)],
            "}",
        ]
        for warps in (8, 16):
            made.append(
                _rate(f"apart_same_{width}", split, address, sink, warps, None, family="memory_mix", iterations=6)
            )
        by_sub_core = ["if ((warp & 1u) == 0u) {", *split[1:]]
        for warps in (2, 4, 8, 16):
            made.append(
                _rate(
                    f"apart_other_{width}", by_sub_core, address, sink, warps, None, family="memory_mix", iterations=6
                )
            )
    address = registers + "const u32 p = base + 16u * lane;"
    for each in (1, 2, 4):
        steps = []
        for i in range(4):
            steps.append(shared_load(128, f"y[{i}]", "p", 0))
            steps += [
                f'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(y[{4 + (i * each + k) % 4}][0]));'
                for k in range(each)
            ]
        made += _shapes(f"lds128_shfl{each}", steps, address, sink, family="memory_mix", counts=(1, 4, 8))
    for label, first in (
        ("lds32", shared_load(32, "y[0]", "p")),
        ("sts32", shared_store(32, "y[0]", "p")),
        ("ldsm4", matrix_load(4, "y[0]", "p")),
    ):
        for gap in (0, 1, 2, 4, 8, 16):
            steps = []
            for number in range(6):
                steps.append(matrix_load(4, f"y[{number}]", "p", 512 * number) if label == "ldsm4" else first)
                steps += [
                    f'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[{k % 8}]) : "f"(f[8]));' for k in range(gap)
                ]
            made += [
                _rate(f"gap{gap}_{label}", steps,
                      address + "\nfloat f[9]; for (u32 j = 0; j < 9u; ++j) f[j] = (float)y[j % 8u][0];",
                      sink + "".join(f" ^ (u32)f[{k}]" for k in range(8)), warps, active, family="memory_mix", iterations=6)
                for warps, active in ((1, None), (4, None), (8, None), (16, (0, 4)))
            ]  # fmt: skip
    return made


def kernels() -> list[Kernel]:
    """All memory microbenchmarks."""
    return [*_latencies(8), *_latencies(16), *_rates(), *_mixes()]
