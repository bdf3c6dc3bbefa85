"""One definition for each metric that a report shows: the only place where the HTML report takes its tooltips from.

`definition` takes the name of a figure or a column ("Bank Conflicts"), of a resource of the lower bounds ("load/store
unit"), of a stall reason ("long_scoreboard"), or of a counter of the profiler ("smsp__inst_executed.sum").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuemu.base.table import Table, words
from gpuemu.views import resources
from gpuemu.views.stalls import STALLS, stall_reason

METRICS: Mapping[str, str] = {
    "Duration": "Time of the whole launch on all SMs. gpuemu estimates it at the chip's clock.",
    "Elapsed Cycles": "Cycles from the begin to the end of the whole launch, on all SMs.",
    "SM Active Cycles": "Cycles of the emulated SM from the launch of its first warp to its last store.",
    "Instructions": "Instructions that warps issued. One instruction of 32 threads counts once.",
    "Blocks": "Thread blocks (CTAs) of the grid. gpuemu times those of one SM.",
    "Lower bound per resource": "Cycles that this resource alone needs if nothing else limits the kernel.",
    "Stall reason": "Why warps did not issue. The cycles of all warps are added up, also where warps wait together.",
    "Saved": "SM Active Cycles that the kernel saves in a simulation without this cause.",
    "Simulated change": "The change that gpuemu made in the simulation. It need not be possible on hardware.",
    "What to try": "A change of the source that may bring a part of the saving.",
    "Warp Stall Cycles": "Cycles that all warps together waited for this instruction or line, its issue included.",
    "Top Stall": "The stall reason with most of these cycles, and its share of them.",
    "Instructions Executed": "How often a warp executed the instruction, or the instructions of the line.",
    "L1 Wavefronts Shared": "Wavefronts: passes of shared-memory accesses through the data stage. "
    "Each bank serves one word per wavefront.",
    "L1 Wavefronts Shared Excessive": "Bank conflicts: wavefronts beyond the ideal, because lanes want different words "
    "of one bank.",
    "L1 Conflicts Shared N-Way": "Wavefronts per ideal wavefront. The value is 1 without bank conflicts.",
    "L2 Theoretical Sectors Global": "Sectors of 32 bytes that the lanes touch in global memory.",
    "L2 Theoretical Sectors Global Ideal": "The fewest sectors that could hold what the lanes ask for.",
    "Live Registers": "Registers whose value is still needed after the instruction.",
    "Address": "Offset of the instruction in the kernel's machine code, in hexadecimal.",
    "Instruction": "The machine instruction (SASS).",
    "Control Word": "The compiler's instructions to the scheduler: stall count, yield, and dependence counters.",
    "Line": "Line of the source file.",
    "Source": "Text of the source line.",
    "Wavefronts": "Passes of shared-memory accesses through the data stage. Each bank serves one word per wavefront.",
    "Ideal Wavefronts": "The fewest wavefronts that as many words could need.",
    "Bank Conflicts": "Wavefronts beyond the ideal, because lanes want different words of one bank.",
    "Requests": "Warp instructions that access global or local memory.",
    "Sectors": "Sectors of 32 bytes that the lanes touch.",
    "Ideal Sectors": "The fewest sectors that could hold what the lanes ask for.",
    "Sectors/Request": "Sectors per warp instruction. Fewer sectors mean that lanes coalesce better.",
    "L1 Hit Rate": "Share of the loaded sectors that L1 had.",
    "Active Warps Per Scheduler": "Warps that live on a scheduler, on average over the cycles in which it has one.",
    "Eligible Warps Per Scheduler": "Warps that could issue in a cycle, on average.",
    "Issued Warp Per Scheduler": "Instructions that a scheduler issues per cycle. At most one is possible.",
    "No Eligible": "Share of the cycles in which a scheduler has warps but none that can issue.",
    "Theoretical Occupancy": "Share of the SM's warps that fit at once by registers, shared memory and blocks.",
    "Achieved Occupancy": "Share of the SM's warps that were there, on average.",
    "Sub-core": "The quarter of the SM (SM sub-partition) that runs the warp.",
    "Start": "The cycle in which the warp is launched.",
    "End": "The cycle in which the warp and its stores are done.",
    "Confidence": "How well the value is supported: A is two independent sources, D is a guess.",
    "Status": "Where the value comes from: measured, published, derived or assumed.",
    "Instruction roofline": "Instructions per cycle against instructions per sector or wavefront. "
    "A memory's bandwidth bounds the slope, the issue slots bound the top.",
}
"""The figures and the columns of tables, as the report heads them."""

RESOURCES: Mapping[str, str] = {
    resources.SLOTS: "Each scheduler issues at most one instruction per cycle.",
    resources.PIPES: "Executes arithmetic of one kind, one warp instruction per issue interval.",
    resources.LATENCY: "Cycles of the longest warp if it ran alone. More warps hide it, or more distance between a load"
    " and its use.",
    resources.PORTS: "Each register bank delivers one operand per cycle.",
    resources.SENDING: "Addresses and data of memory instructions leave their sub-core, one register per two cycles.",
    resources.QUEUES: "Places of a sub-core for memory instructions that wait.",
    resources.UNIT: "The load/store unit accepts requests of all sub-cores, one per two cycles.",
    resources.ENTRIES: "Places for requests that the load/store unit has accepted and the data stage has not served.",
    resources.STORE_DATA: "Data of stores on their way to the data stage.",
    resources.DATA_STAGE: "Serves one wavefront per cycle for shared memory and L1 together.",
    resources.PATH: "One warp's wavefronts pass the data stage every second cycle. Other warps' fit between them.",
    resources.WAY_BACK: "Data of loads on their way to the registers of all sub-cores.",
    resources.DIVERGENCE: "Executes instructions with one result for all lanes: LDC, S2R, REDUX and MATCH.",
    resources.COPIES: "Data of asynchronous copies (cp.async.ca) on their way from L1 to shared memory.",
    resources.BARRIER: "Counts arrivals at the barriers of all blocks.",
    resources.BANDWIDTH: "Sectors that this SM reads from L2.",
    resources.STORES: "Sectors that this SM sends to L2.",
    resources.LAUNCH: "Cycles in which no block runs, because blocks and warps start.",
}
"""The resources of the lower bounds, in the order of the glossary's table, which is this one (`glossary_table`)."""
_PORTS = "Serve the wavefronts of one direction: reads or writes."

_COUNTED: Mapping[str, str] = {
    "sm__cycles_active": "SM Active Cycles",
    "smsp__inst_executed": "Warp instructions executed",
    "smsp__thread_inst_executed": "Instructions executed, counted for each thread",
    "sm__inst_executed_pipe_tensor": "Instructions of the tensor core",
    "sm__sass_inst_executed": "Warp instructions executed",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared": "Wavefronts of shared memory",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared": "Bank conflicts in shared memory",
    "l1tex__data_bank_reads": "Words that banks of L1 and shared memory read",
    "l1tex__data_bank_writes": "Words that banks of L1 and shared memory wrote",
    "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared": "Wavefronts of shared memory, counted per instruction",
    "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared": "Bank conflicts, counted per instruction",
    "sm__sass_l1tex_t_requests_pipe_lsu_mem_global": "Requests to global memory, counted per instruction",
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global": "Sectors of global memory, counted per instruction",
    "l1tex__t_requests_pipe_lsu_mem_global": "Requests to global memory",
    "l1tex__t_sectors_pipe_lsu_mem_global": "Sectors of global memory that L1 was asked for",
    "l1tex__t_requests_pipe_lsu_mem_local": "Requests to local memory",
    "l1tex__t_sectors_pipe_lsu_mem_local": "Sectors of local memory that L1 was asked for",
    "l1tex__m_xbar2l1tex_read_sectors": "Sectors that arrived from L2",
    "dram__sectors_read": "Sectors that DRAM read for this SM",
    "lts__t_sectors_srcunit_tex": "Sectors that this SM asked L2 for",
}
_OPERATIONS: Mapping[str, str] = {
    "op_ldgsts_cache_access": "by asynchronous copies through L1",
    "op_ldgsts_cache_bypass": "by asynchronous copies past L1",
    "op_ldgsts": "by asynchronous copies (LDGSTS)",
    "op_ldsm": "by matrix loads (LDSM)",
    "op_shared_ld": "that load from shared memory",
    "op_shared_st": "that store to shared memory",
    "op_hmma": "for floating point (HMMA)",
    "op_imma": "for integers (IMMA)",
    "op_gmma": "of warpgroups (wgmma)",
    "op_ld": "by loads",
    "op_st": "by stores",
    "op_atom": "by atomics",
    "op_red": "by reductions",
    "op_read": "to read",
    "op_write": "to write",
    "lookup_hit": "that the cache had",
    "lookup_miss": "that the cache did not have",
}
_REST = re.compile("|".join(sorted(_OPERATIONS, key=len, reverse=True)))


def definition(name: str) -> str:
    """The definition of a metric, a resource, a stall reason or a counter; "" for a name that has none."""
    if name in METRICS:
        return METRICS[name]
    if name in RESOURCES:
        return RESOURCES[name]
    if name in STALLS:
        return f"A warp {stall_reason(name).sentence}."
    return _of_counter(name) or _of_resource(name)


def _of_counter(name: str) -> str:
    stem = max((stem for stem in _COUNTED if name.startswith(stem)), key=len, default="")
    if not stem:
        return ""
    parts = [_OPERATIONS[found] for found in _REST.findall(name[len(stem) :])]
    return " ".join([_COUNTED[stem], *parts]) + "."


def _of_resource(name: str) -> str:
    if name.startswith(resources.PATH):
        return RESOURCES[resources.PATH]
    if name.endswith(resources.DATA_STAGE):
        return RESOURCES[resources.DATA_STAGE]
    if name.endswith(f" {resources.DATA_PORTS}"):
        return _PORTS
    if name.startswith(f"{resources.LATENCY}, "):
        return f"The part of that latency in which the warp {stall_reason(name.partition(', ')[2]).sentence}."
    return RESOURCES[resources.PIPES] if re.search(r"\b(pipe|unit|core|datapath)\b", name) else ""


def glossary_table() -> str:
    """The resources and their definitions as the table of docs/glossary.md."""
    return Table([words("Resource"), words("Meaning")], [*RESOURCES.items()]).markdown()
