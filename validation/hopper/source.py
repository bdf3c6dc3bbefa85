"""Writes the source of all launches: python -m validation.hopper.source > kernels.cu

nvcc -cubin -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++17 kernels.cu
"""

from __future__ import annotations

from pathlib import Path

from validation.hopper.launches import OPERANDS, Array, HopperLaunch, Tiles, launches

_PRODUCT = """struct P_{kind}_{n} {{
    static constexpr int N = {n}, REGISTERS = {registers}, BYTES = {bytes};
    using D = {sums};
    static DEV void ss(D (&d)[REGISTERS], u64 a, u64 b) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                     " wgmma.mma_async.sync.aligned.m64n{n}k{k}.{ptx}"
                     " {{{outs}}}, %{first}, %{second}, p{both}; }}"
                     : {results} : "l"(a), "l"(b));
    }}
    static DEV void rs(D (&d)[REGISTERS], const u32 (&a)[4], u64 b) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                     " wgmma.mma_async.sync.aligned.m64n{n}k{k}.{ptx}"
                     " {{{outs}}}, {{{four}}}, %{fifth}, p{one}; }}"
                     : {results} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }}
}};
"""


def product(kind: str, n: int) -> str:
    """A struct of one shape and type; `f16v` has operand B as it lies, columns first."""
    operand = OPERANDS[kind.removesuffix("v")]
    registers = n // 4 if operand.sums == "u32" else n // 2
    letter = "f" if operand.sums == "float" else "r"
    scales = "" if kind == "s8" else ", 1, 1"
    halves = operand.bytes == 2
    turned = int(kind.endswith("v"))
    return _PRODUCT.format(
        kind=kind, n=n, registers=registers, bytes=operand.bytes, sums=operand.sums, k=operand.k, ptx=operand.ptx,
        outs=", ".join(f"%{i}" for i in range(registers)), first=registers, second=registers + 1,
        results=", ".join(f'"+{letter}"(d[{i}])' for i in range(registers)),
        both=scales + f", 0, {turned}" * halves, one=scales + f", {turned}" * halves,
        four=", ".join(f"%{registers + i}" for i in range(4)), fifth=registers + 4,
    )  # fmt: skip


def kernel(launch: HopperLaunch) -> str:
    """The kernel of a launch."""
    types = []
    for argument in launch.args:
        if isinstance(argument, Tiles):
            types.append("const __grid_constant__ Map")
        elif isinstance(argument, Array):
            result = argument.zeros
            kind = {"u32": "u32*", "int": "int*"}.get(argument.kind, "float*")
            types.append(kind if result or argument.kind == "f32" else "const char*")
        else:
            types.append("int")
    named = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types))
    dims = f" __cluster_dims__({launch.cluster}, 1, 1)" if launch.cluster > 1 else ""
    passed = ", ".join(f"a{i}" for i in range(len(types)))
    bounds = f"__launch_bounds__({launch.threads}, 1)"
    return f'extern "C" __global__ void{dims} {bounds} {launch.name}({named}) {{ {launch.code}({passed}); }}\n'


def source() -> str:
    """The whole source."""
    todo = launches()
    kinds = dict.fromkeys(which for launch in todo for which in launch.products)
    parts = [Path(__file__).with_name("kernels.cuh").read_text(encoding="utf-8")]
    return "".join([*parts, *(product(*which) for which in kinds), *map(kernel, todo)])


if __name__ == "__main__":
    print(source(), end="")
