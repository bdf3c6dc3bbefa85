"""What a user's own mypy sees of the public names: real signatures, named keys, errors where a word is wrong.

Nobody runs this: mypy checks it with the rest. Where a signature decays to Any, an `ignore` is no longer needed, which
is an error in itself.
"""

from __future__ import annotations

from typing import assert_type

import numpy as np

import gpuemu
from gpuemu.studies.check.report import Report
from gpuemu.studies.layout.search import SearchResult
from gpuemu.studies.rank.ranking import Ranking
from gpuemu.studies.why.api import Answer

result = gpuemu.run("v5_swizzle", "sm_89")
assert_type(result, gpuemu.Result)
assert_type(result.shared_memory["Shared Load"].wavefronts, int)
assert_type(result.counters["smsp__inst_executed.sum"], int)
assert_type(result.to_html("v5.html", beside=result), None)
assert_type(gpuemu.shared_access("sm_89", "LDS.32", range(32)), gpuemu.SharedAccess)
assert_type(gpuemu.search("sm_89", "16x16:f16", ["copy-in:32"]), SearchResult)
assert_type(gpuemu.mma("sm_89", "m16n8k16.f32.f16", 0, 0, 0).dtype, np.dtype[np.uint32])
assert_type(gpuemu.check("kernel.cu", grid=(1, 1), block=32), Report)
assert_type(gpuemu.why("v5_swizzle"), Answer)
assert_type(gpuemu.rank([gpuemu.Configuration("a.cubin")], "sm_90"), Ranking)
assert_type(gpuemu.trace_kernel("kernel.cu", block=(32, 1, 1)), gpuemu.Trace)
assert_type(gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": 64}), gpuemu.Architecture)

gpuemu.run("v5_swizzle", engin="simpy")  # type: ignore[call-arg]
gpuemu.search("sm_89", 16, [])  # type: ignore[arg-type]
gpuemu.shared_access("sm_89", 32, range(32))  # type: ignore[arg-type]
gpuemu.mma("sm_89")  # type: ignore[call-arg]
gpuemu.trace_kernel("kernel.cu", block="32x1")  # type: ignore[arg-type]
gpuemu.sweep(3)  # type: ignore[arg-type]
gpuemu.judge(3, 4)  # type: ignore[arg-type]
gpuemu.triton.device(3)  # type: ignore[arg-type]
