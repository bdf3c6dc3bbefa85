"""The measurement of `validation` that settles a value, because its figure depends on it, by the value's name.

A measurement is a kernel of the corpus (`python -m validation measure`). If its name has a slash, it is a sequence of
`validation/sequences`.
"""

from __future__ import annotations

TENSOR = "tensor_core.operations."
SETTLED_BY = {
    "operations.integer": "lat_iadd3_16",
    "operations.ffma": "lat_ffma_16",
    "operations.imad_wide": "thr_imad_wide_w4",
    "operations.imad": "lat_imad_16",
    "operations.half": "lat_hfma2_16",
    "operations.half_mma": "lat_hfma2_16",
    "operations.fp64": "thr_dadd_w16",
    "operations.mufu": "thr_mufu_ex2_w4",
    "operations.conversion": "lat_f2i_16",
    "operations.reduction": "lat_redux_16",
    "operations.match": "lat_match_16",
    "operations.constant_load": "lat_ldc_8",
    "operations.indexed_constant_load": "lat_ldc_8",
    "operations.matrix_move": "lat_shfl_16",
    "special_function": "pair_iadd3_mufu_ex2_r1_w4",
    "address_divergence": "thr_redux_w16",
    "tensor_core.operands": "mmaby_m16n8k16_f32_f16_ffma1_w1",
    "tensor_core.turnaround": "mix_tensor_000",
    "register_file": "regs_ffma_distinct_w4",
    "mio.queue_entries": "queue_lds32_w1",
    "mio.queue_latency_cycles": "queue_lds32_w1",
    "mio.pool": "queue_lds128_w4",
    "mio.window": "queue_lds32c8_w4",
    "mio.store": "queue_sts32_w4",
    "mio.data": "rate_sts32_c1_w4",
    "mio.copy": "rate_ldgsts4_w1",
    "mio.shuffle": "lat_shfl_16",
    "mio": "rate_lds32_c1_w1",
    "shared_memory.atomic": "lat_atoms_add_c1_8",
    "shared_memory.cycles_per_wavefront_per_warp": "lat_lds32_c2_8",
    "shared_memory": "lat_lds32_c1_8",
    "barrier": "bar_alu0_w4",
    "fence": "fences/of_32_wavefronts_by_1_warps",
    "global_memory.l1": "lat_ldg_l1_8",
    "global_memory.l2": "lat_ldg_l2_8",
    "global_memory.bytes_per_cycle": "rate_ldg128_l2_w8",
    "global_memory.store": "rate_stg32_w4",
    "global_memory": "lat_ldg_l2_8",
    "code": "fetch_64_w1",
    "issue.taken_branch_cycles": "loop_fma16_w1",
    "issue.next_line_cycles": "loop_fma16_w1",
    "issue.convergence_cycles": "loop_diverge_w1",
    "issue": "turns/four_warps",
    "launch": "example_v1_w1",
    "sm": "resident_lds128_w1_x2",
}
"""The measurements by the beginnings of names. The longest beginning counts."""


MEASURED_MODES = {
    "m8n8k16.s32.s8", "m16n8k4.f32.tf32", "m16n8k8.f16.f16", "m16n8k8.f32.bf16", "m16n8k8.f32.f16", "m16n8k8.f32.tf32",
    "m16n8k16.f16.f16", "m16n8k16.f32.bf16", "m16n8k16.f32.f16", "m16n8k16.s32.s8", "m16n8k32.s32.s8",
}  # fmt: skip
"""The tensor core's modes with kernels of their own, which alone settle latency and interval."""


def settled_by(name: str) -> str:
    """The measurement that settles a value; "" if there is none yet."""
    mode, _, what = name.removeprefix(TENSOR).rpartition(".")
    if name.startswith(TENSOR):
        form = "thr_mma_{}_a4_w4" if what == "issue_interval_cycles" else "lat_mma_{}_8"
        return form.format(mode.replace(".", "_")) if mode in MEASURED_MODES else ""
    return SETTLED_BY.get(max((known for known in SETTLED_BY if name.startswith(known)), key=len, default=""), "")
