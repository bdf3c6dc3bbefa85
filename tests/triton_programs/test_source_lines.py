"""Instructions of kernels that Triton's compiler made have the lines of the Python file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import gpuemu

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")]

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def add(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i)
    doubled = values + values
    tl.store(out + i, doubled)
"""
LINES = {"S2R": 8, "LDG": 9, "FADD": 10, "STG": 11}


def test_a_load_has_the_line_of_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton", reason="the kernel is compiled with Triton")
    from triton.backends.compiler import GPUTarget

    (tmp_path / "lines_of_add.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    import lines_of_add  # type: ignore[import-not-found]

    types = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(fn=lines_of_add.add, signature=types, constexprs={"BLOCK": 512})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    (tmp_path / "add.cubin").write_bytes(made.asm["cubin"])
    arrays = [np.ones(512, np.float32), np.zeros(512, np.float32)]
    trace = gpuemu.trace_kernel(tmp_path / "add.cubin", grid=1, block=128, args=[*arrays, 512, 0, 0])
    found: dict[str, set[int]] = {name: set() for name in LINES}
    for one in trace.code:
        name = one.opcode.split(".")[0]
        if name in found:
            found[name].update(line for _, line in one.source or ())
    assert found == {name: {line} for name, line in LINES.items()}


def test_a_kernel_of_pallas_gets_the_file_of_its_function() -> None:
    pytest.importorskip("triton", reason="gpuemu's part for Pallas compiles with Triton")
    from gpuemu.triton.pallas import with_file

    text = '#loc = loc(unknown)\n#loc1 = loc("/a/app.py":11:30 to :68)\n#loc2 = loc("/b/other.py":3:0)\n'
    text += '#loc3 = loc("get"(#loc1))\ntt.func @f(%x: i32 loc(unknown))'
    assert with_file(text, "softmax at /a/app.py:10") == (
        '#loc = loc("/a/app.py":10:0)\n#loc1 = loc("/a/app.py":11:30 to :68)\n#loc2 = loc("/a/app.py":10:0)\n'
        '#loc3 = loc("get"(#loc1))\ntt.func @f(%x: i32 loc("/a/app.py":10:0))'
    )
    assert with_file(text, "<unknown>") == text
