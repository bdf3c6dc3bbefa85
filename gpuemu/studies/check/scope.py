"""Which tools have nothing to say of an input, and why: silence of the others means that they found nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.studies.check.findings import Finding
from gpuemu.trace.model import Instruction, Trace

_KERNEL = "the kernel itself, a .cu or .cubin, has them"
_MEMORY = (Kind.SHARED, Kind.GLOBAL)
_MEET = ("WARPSYNC", "SHFL", "VOTE", "MATCH", "REDUX", "SYNCS", "ELECT")
_IN_STEP = "its CTAs have one warp, whose lanes are taken to go in step in a trace"


def idle_of_trace(trace: Trace, tools: Iterable[str]) -> dict[str, str]:
    """Of a trace the tools that have nothing to look at, each with the reason."""
    code = executed(trace)
    shared = any(i.operation.row is not None or i.takes_generic_addresses for i in code)
    found = {
        "memcheck": f"a trace has no buffers to hold addresses against: {_KERNEL}",
        "initcheck": f"a trace does not have what was written before: {_KERNEL}",
    }
    if not shared:
        found["racecheck"] = "nothing that executed accesses shared memory, all that a trace is looked at for"
    elif trace.launch.warps_per_cta == 1:
        found["racecheck"] = _IN_STEP
    if not any(i.operation.kind is Kind.BARRIER for i in code):
        found["synccheck"] = "nothing that executed waits at a barrier"
    if not trace.has_control_words:
        found["controlcheck"] = "no control words are there to look at"
    return {tool: found[tool] for tool in tools if tool in found}


def idle_of_kernel(trace: Trace, tools: Iterable[str], unfilled: bool) -> dict[str, str]:
    """Of a kernel that was executed the same. `trace`: what was recorded; `unfilled`: a buffer had no values."""
    code = executed(trace)
    reaches = any(i.operation.kind in _MEMORY or _asynchronous(i) for i in code)
    found = {}
    if not reaches:
        found["memcheck"] = "nothing that executed accesses memory"
        found["racecheck"] = "nothing that executed accesses memory"
    elif trace.launch.ctas * trace.launch.threads_per_cta == 1:
        found["racecheck"] = "the launch has one thread"
    if not any(i.operation.kind is Kind.BARRIER or i.mnemonic in _MEET for i in code):
        found["synccheck"] = "nothing that executed waits for other threads"
    if not unfilled and not any(_reads_own(i) for i in code):
        found["initcheck"] = (
            "no shared or local memory is read, and every buffer came with values (--arg empty:TYPE:SIZE has none)"
        )
    return {tool: found[tool] for tool in tools if tool in found}


def but_for(idle: Mapping[str, str], found: Iterable[Finding]) -> dict[str, str]:
    """The idle tools, without those that found something after all."""
    telling = {finding.tool for finding in found}
    return {tool: reason for tool, reason in idle.items() if tool not in telling}


def executed(trace: Trace) -> list[Instruction]:
    """The instructions that some warp executed."""
    paths = [np.unique(warp.path) for warp in trace.warps]
    return [trace.code[k] for k in np.unique(np.concatenate(paths)).tolist()] if paths else []


def _asynchronous(instruction: Instruction) -> bool:
    """Whether it is a bulk copy or of an mbarrier, which reach shared memory."""
    return "bulk" in instruction.parsed.row.notes or instruction.mnemonic == "SYNCS"


def _reads_own(instruction: Instruction) -> bool:
    """Whether it may read shared or local memory."""
    operation = instruction.operation
    if _asynchronous(instruction) or instruction.takes_generic_addresses:
        return True
    return (operation.kind is Kind.SHARED or operation.local) and not operation.store


def sentences(idle: Mapping[str, str]) -> Iterator[str]:
    """One for each reason, with the tools that it holds for."""
    reasons: dict[str, list[str]] = {}
    for tool, reason in idle.items():
        reasons.setdefault(reason, []).append(tool)
    for reason, tools in reasons.items():
        yield f"{' and '.join(tools)} had nothing to look at: {reason}"
