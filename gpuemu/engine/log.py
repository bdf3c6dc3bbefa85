"""What happened in a run: plain arrays, sized from the program, which views read beside it and nothing else.

Issues and requests stand in the program's order. A request's access is `program.access`, so that nothing has to be
paired again. Cycles count from the launch of the first CTA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Cycles = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The log of one run.

    `issue` [issues]: the cycle of each. `waited` [issues, reasons]: cycles by reason since the warp's last issue, or
    since its start, the cycles of issues themselves left out; reasons as `program.stall_reasons` numbers them.
    `operands_late` [issues]: how much later than usual its operands were read.
    `dispatch`, `start`, `done` [requests]: when it left its queue, when its first wavefront passed the data stage,
    when its last result was there. `lost` [requests]: its wavefronts that were sent in vain, while an S2R had the data
    stage. `beyond` [requests]: the sectors that it loaded from beyond L1.
    `result` [issues]: of an instruction of no fixed latency that is no request, when its result was there, its copy
    done, or its wait over; -1 for others.
    `warp_start`, `warp_end`, `warp_sub_core`, `warp_slot` [warps]; a warp ends behind its drain.
    `cta_start`, `cta_end`, `cta_slot` [ctas].
    `read_cycles`, `write_cycles`: cycles of the data stage's ports used by reads and by writes. `loaded_sectors` came
    from beyond L1, `stored_sectors` went there, but for what merged with a line that was still waiting. Their path
    carried `sent_sectors`: masks of lines written in part, too. `more`: what other units log, by name.
    """

    issue: Cycles
    waited: NDArray[np.int32]
    operands_late: NDArray[np.int32]
    dispatch: Cycles
    start: Cycles
    done: Cycles
    lost: Cycles
    beyond: Cycles
    result: Cycles
    warp_start: Cycles
    warp_end: Cycles
    warp_sub_core: Cycles
    warp_slot: Cycles
    cta_start: Cycles
    cta_end: Cycles
    cta_slot: Cycles
    read_cycles: int
    write_cycles: int
    loaded_sectors: int
    stored_sectors: int
    sent_sectors: int
    more: Mapping[str, Cycles] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """From the launch of the first CTA to the end of the last warp."""
        return int(self.warp_end.max(initial=0))
