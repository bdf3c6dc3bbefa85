"""The notes of a run: its omissions, guesses and assumptions, in sentences. Every output with a time has them.

no rule times CCTL (16), ERRBAR (4): their cycles are guesses, and so are the waits for them
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.isa.kind import Kind
from gpuemu.isa.registers import PREDICATES
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace
from gpuemu.views.footprint import Footprint

_KIB, _MIB = 1 << 10, 1 << 20


def notes(trace: Trace, program: Program, arch: Architecture, touched: Footprint) -> list[str]:
    """The notes of a run; [] if it has none."""
    found = [*untested(arch), *guesses(trace.guessed)]
    if program.events is None or not len(program.events):
        unknown = np.count_nonzero(np.array([op.kind is Kind.ASYNCHRONOUS for op in program.ops])[program.path])
        if unknown:
            found.append(f"the trace has no events of {unknown:,} bulk copies and mbarriers, so nothing waits for them")
    if not program.uses_control_words:
        why = "control words set aside" if trace.has_control_words else "no control words in the trace"
        found.append(f"{why}: a register scoreboard times dependences, without the compiler's stall counts")
    return [*found, *queues(trace), *of_caches(arch, touched), *other_chips(arch), *trace.lacks]


def untested(arch: Architecture) -> list[str]:
    """The note about an architecture whose times were never compared with a chip; [] for all others."""
    return [arch.untested] if arch.untested else []


def other_chips(arch: Architecture) -> list[str]:
    """The note about changed values of chips other than the run's; [] without any."""
    changed = [name for name, where in arch.provenance.items() if where.status == "override"]
    idle = [name for name in changed if name.startswith("chips.") and not name.startswith(f"chips.{arch.chip}.")]
    if not idle:
        return []
    return [f"{', '.join(idle)} has no effect here: the run is on {arch.chip}. --chip chooses another product"]


def queues(trace: Trace) -> list[str]:
    """The note about CTAs that take work from a queue; [] if none do, or if all were executed."""
    if len({warp.cta for warp in trace.warps}) == trace.launch.ctas:
        return []
    for pc, instruction in enumerate(trace.code):
        if instruction.mnemonic in ("ATOMG", "ATOM") and not instruction.has("CAS"):
            returns = any(register < PREDICATES for register in instruction.registers[0])
            if returns and any(np.count_nonzero(warp.path == pc) > 1 for warp in trace.warps):
                taken = f"a CTA repeatedly uses results of {instruction.mnemonic} at 0x{instruction.offset:04x}."
                if trace.sample is not None and trace.sample.hands_out:
                    return [f"{taken} gpuemu assumes that it hands out work, and gives all CTAs equally many turns"]
                return [
                    f"{taken} If it hands out the work of all CTAs, the timed CTAs also took the others' work, and the"
                    " times are too long"
                ]
    return []


def guesses(guessed: Mapping[str, int]) -> list[str]:
    """The note about instructions that no rule times, with their number by mnemonic; [] without any."""
    if not guessed:
        return []
    named = ", ".join(f"{mnemonic} ({count:,})" for mnemonic, count in guessed.items())
    return [f"no rule times {named}: their cycles are guesses, and so are the waits for them"]


def caches(arch: Architecture, touched: Footprint) -> str:
    """The memories in which the data of a run are assumed to be, in a phrase."""
    if arch.global_memory.first_touch == "dram":
        return "caches cold"
    return "caches warm" if touched.fits else "data assumed to be in L2"


def of_caches(arch: Architecture, touched: Footprint) -> list[str]:
    """The note about data that are elsewhere than the run assumes, or come slower; [] without any."""
    if arch.global_memory.first_touch == "dram":
        if not touched.at_least:
            return []
        return ["caches cold: data from DRAM come later. The lower bandwidth of DRAM is not modeled"]
    if touched.fits or touched.l2 is None:
        return []
    return [
        f"the launch touches {_amount(touched, touched.l2)}, and L2 of {arch.chip} holds {_size(touched.l2)}:"
        " the rest comes from DRAM, which takes longer than the cycles here"
    ]


def _amount(touched: Footprint, l2: int) -> str:
    if touched.at_least == touched.at_most:
        return _size(touched.at_most)
    if touched.at_least > l2:
        return f"{_size(touched.at_least)} and more"
    return f"up to {_size(touched.at_most)}"


def _size(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB" if count >= _MIB else f"{count / _KIB:,.1f} KiB"
