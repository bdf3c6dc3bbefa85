"""Compiles `kernels.py` with Triton, which needs no GPU: `python build.py OUT [NAME...]`.

Writes OUT/NAME.sm_XX.cubin for each configuration and architecture, and prints block and shared memory of each.
"""

# mypy: ignore-errors
import json
import os
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # smaller cubins
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import kernels
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

F32, F16, BF16, F64, I32, I64, I8 = "*fp32", "*fp16", "*bf16", "*fp64", "*i32", "*i64", "*i8"
INT = "i32"
MATMUL = [INT] * 9


def matmul(kind, out=F32, acc=tl.float32, precision="tf32", bm=64, bn=64, bk=32):
    return "matmul", [kind, kind, out, *MATMUL], {
        "BM": bm, "BN": bn, "BK": bk, "GROUP": 4, "PRECISION": precision, "ACC": acc,
    }  # fmt: skip


ATTENTION = [F16, F16, F16, F16, "fp32", INT]
CONFIGURATIONS = {
    "vector_add": ("vector_add", [F32, F32, F32, INT], {"BLOCK": 256}),
    "softmax": ("softmax", [F32, F32, INT, INT], {"BLOCK": 256}),
    "layer_norm": ("layer_norm", [F16, F16, F16, F16, F32, INT, "fp32"], {"BLOCK": 128}),
    "matmul_f16": matmul(F16, F16),
    "matmul_bf16": matmul(BF16, F32, bm=32),
    "matmul_tf32": matmul(F32, bm=32, bn=32),
    "matmul_f32": matmul(F32, precision="ieee", bm=16, bn=16, bk=16),
    "matmul_tf32x3": matmul(F32, precision="tf32x3", bm=32, bn=32),
    "matmul_f64": matmul(F64, F64, acc=tl.float64, precision="ieee", bm=16, bn=16, bk=16),
    "matmul_i8": matmul(I8, I32, acc=tl.int32, bm=32, bn=32),
    "matmul_e4m3": ("matmul_eight_bits", ["*fp8e4nv", "*fp8e4nv", F32, INT, INT], {"BM": 64, "BN": 64, "BK": 64}),
    "matmul_by_descriptor": ("matmul_by_descriptor", [F16, F16, F16, INT, INT, INT], {"BM": 64, "BN": 64, "BK": 64}),
    "matmul_by_given_descriptor": (
        "matmul_by_given_descriptor",
        ["tensordesc<fp16[64, 64]>", "tensordesc<fp16[64, 64]>", "tensordesc<fp16[64, 64]>", INT],
        {"BM": 64, "BN": 64, "BK": 64},
    ),
    "flash_attention": ("flash_attention", ATTENTION, {"BM": 64, "BN": 32, "D": 32, "CAUSAL": True}),
    "flash_attention_full": ("flash_attention", ATTENTION, {"BM": 64, "BN": 32, "D": 64, "CAUSAL": False}),
    "histogram": ("histogram", [I32, I32, INT], {"BINS": 64, "BLOCK": 512}),
    "atomics": ("atomics", [F32, F32, F32, I32, I32, I32, INT], {"BLOCK": 128}),
    "transpose": ("transpose", [F16, F16, INT, INT], {"BM": 32, "BN": 64}),
    "scan": ("scan", [F32, F32, F32, F32], {"BLOCK": 512}),
    "sort": ("sort", [I32, I32, I32], {"BLOCK": 64, "K": 8}),
    "reductions": ("reductions", [F32, F32, I32], {"M": 32, "N": 64}),
    "conv2d": ("conv2d", [F16, F16, F32, INT, INT, INT, INT], {"R": 3, "BF": 16, "BC": 16, "BP": 64}),
    "random_numbers": ("random_numbers", [INT, I32, F32, F32, I8, "fp32"], {"BLOCK": 128}),
    "math": ("math", [F32, F32, INT], {"BLOCK": 128}),
    "math64": ("math64", [F64, F64, INT], {"BLOCK": 128}),
    "integers": ("integers", [I32, I32, I64, INT], {"BLOCK": 128}),
    "conversions": ("conversions", [F32, F16, BF16, "*fp8e5", I8, I64, F32], {"BLOCK": 128}),
    "conversions_e4m3": ("conversions_e4m3", [F32, "*fp8e4nv", F32], {"BLOCK": 128}),
    "control": ("control", [I32, I32, INT], {}),
    "gather": ("gather", [F32, I32, F32, F32], {"M": 32, "D": 32}),
    "printing": ("printing", [F32, F32], {"BLOCK": 64}),
    "inline_assembly": ("inline_assembly", [I8, I8, I8], {"BLOCK": 256}),
}
OPTIONS = {"num_warps": 4, "num_stages": 3}


def compile_one(name, capability):
    kernel, types, constants = CONFIGURATIONS[name]
    function = getattr(kernels, kernel)
    names = [n for n in function.arg_names if n not in constants]
    signature = dict(zip(names, types, strict=True)) | dict.fromkeys(constants, "constexpr")
    attributes = {
        (function.arg_names.index(n),): [["tt.divisibility", 16]] for n, t in signature.items() if t[0] == "*"
    }
    if kernel in ("matmul_by_descriptor", "matmul_eight_bits"):
        for n in {"M", "N", "K"} & set(signature):
            attributes[(function.arg_names.index(n),)] = [["tt.divisibility", 16]]
    if kernel in ("matmul", "flash_attention", "conv2d"):
        for n in ("sam", "sbk", "scm", "K", "C", "F", "n"):
            if n in signature:
                attributes[(function.arg_names.index(n),)] = [["tt.divisibility", 16]]
        if kernel == "matmul":  # stride 1, as the launcher specialises it
            for n in ("sak", "sbn", "scn"):
                constants = constants | {n: 1}
                signature[n] = "constexpr"
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = dict(OPTIONS, debug=name == "printing")
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def main(out, names):
    out = Path(out)
    shared = {}
    for name in names or CONFIGURATIONS:
        for capability in (75, 80, 86, 89, 90, 100):
            try:
                built = compile_one(name, capability)
            except Exception as error:
                print(name, capability, "refused by Triton:", str(error).strip().splitlines()[-1][:150])
                continue
            (out / f"{name}.sm_{capability}.cubin").write_bytes(built.asm["cubin"])
            (out / f"{name}.sm_{capability}.ptx").write_text(built.asm["ptx"])
            shared[f"{name}.sm_{capability}"] = built.metadata.shared
            print(
                name,
                capability,
                len(built.asm["cubin"]),
                built.metadata.name,
                built.metadata.shared,
                built.metadata.num_warps,
                built.metadata.global_scratch_size,
            )

    path = out / "shared.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | shared, indent=0))


main(sys.argv[1], sys.argv[2:])
