"""Which tools skip an input, and why. The silence of the other tools means that they found nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.studies.check.findings import Finding
from gpuemu.trace.model import Instruction, Trace

_NO_VALUES = "a trace has no buffers or values; check the .cu or .cubin instead"
_MEMORY = (Kind.SHARED, Kind.GLOBAL)
_MEET = ("WARPSYNC", "SHFL", "VOTE", "MATCH", "REDUX", "SYNCS", "ELECT")
_IN_STEP = "one warp per CTA, whose lanes run in lockstep in a trace"


def idle_of_trace(trace: Trace, tools: Iterable[str]) -> dict[str, str]:
    """The tools that have nothing to check in a trace, each with the reason."""
    code = executed(trace)
    shared = any(i.operation.row is not None or i.takes_generic_addresses for i in code)
    found = {
        "memcheck": _NO_VALUES,
        "initcheck": _NO_VALUES,
    }
    if not shared:
        found["racecheck"] = "the trace does not access shared memory"
    elif trace.launch.warps_per_cta == 1:
        found["racecheck"] = _IN_STEP
    if not any(i.operation.kind is Kind.BARRIER for i in code):
        found["synccheck"] = "the trace waits at no barrier"
    if not trace.has_control_words:
        found["controlcheck"] = "the trace has no control words"
    return {tool: found[tool] for tool in tools if tool in found}


def idle_of_kernel(trace: Trace, tools: Iterable[str], unfilled: bool) -> dict[str, str]:
    """The tools that had nothing to check in an executed kernel. `trace`: its record; `unfilled`: a buffer had no
    values.
    """
    code = executed(trace)
    reaches = any(i.operation.kind in _MEMORY or _asynchronous(i) for i in code)
    found = {}
    if not reaches:
        found["memcheck"] = "the kernel accesses no memory"
        found["racecheck"] = "the kernel accesses no memory"
    elif trace.launch.ctas * trace.launch.threads_per_cta == 1:
        found["racecheck"] = "the launch has one thread"
    if not any(i.operation.kind is Kind.BARRIER or i.mnemonic in _MEET for i in code):
        found["synccheck"] = "the kernel waits for no other threads"
    if not unfilled and not any(_reads_own(i) for i in code):
        found["initcheck"] = (
            "the kernel reads no shared or local memory, and all buffers have values; --arg empty:TYPE:SIZE has none"
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
    """Whether it is a bulk copy or an mbarrier's instruction, which access shared memory."""
    return "bulk" in instruction.parsed.row.notes or instruction.mnemonic == "SYNCS"


def _reads_own(instruction: Instruction) -> bool:
    """Whether it may read shared or local memory."""
    operation = instruction.operation
    if _asynchronous(instruction) or instruction.takes_generic_addresses:
        return True
    return (operation.kind is Kind.SHARED or operation.local) and not operation.store


def sentences(idle: Mapping[str, str]) -> Iterator[str]:
    """The reasons, each with its tools."""
    for reason, tools in by_reason(idle).items():
        yield f"{' and '.join(tools)} skipped: {reason}"


def by_reason(idle: Mapping[str, str]) -> dict[str, list[str]]:
    """The idle tools by reason."""
    reasons: dict[str, list[str]] = {}
    for tool, reason in idle.items():
        reasons.setdefault(reason, []).append(tool)
    return reasons
