"""Triton programs without a GPU: compiled by Triton's own wheel, executed and timed by gpuemu, on CPU tensors.

    with gpuemu.triton.device("sm_89", chip="RTX 4090") as gpu:
        kernel[grid](x, y, out, n, BLOCK=1024)
    gpu.launches[-1].nanoseconds, gpu.launches[-1].result.cycles

This needs the extra `triton`. Tensors are torch's, on the CPU, or NumPy arrays. The durations are emulated;
`triton.testing.do_bench` and `@triton.autotune` return them.
"""

from gpuemu.triton.api import device
from gpuemu.triton.emulated import Device
from gpuemu.triton.launch import Launch
from gpuemu.triton.tuner_hooks import early_config_prune, helion_autotuner, inductor_choices, perf_model

__all__ = [
    "Device", "Launch", "device", "early_config_prune", "helion_autotuner", "inductor_choices", "perf_model",
]  # fmt: skip
