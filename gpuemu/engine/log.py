"""The log of a run: plain arrays, sized from the program. Views read the log and the program, and nothing else.

Issues and requests are in the program's order. A request's access is `program.access`, so views need not match them
again. Cycles count from the launch of the first CTA.
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

    * `issue` [issues]: the cycle of each issue.
    * `waited` [issues, reasons]: cycles by reason since the warp's last issue or its start, without the cycles of
      issues themselves; `program.stall_reasons` has the numbers of the reasons.
    * `operands_late` [issues]: cycles by which the operands were read later than usual.
    * `dispatch`, `start`, `done` [requests]: the cycles in which a request left its queue, its first wavefront passed
      the data stage, and its last result was there.
    * `lost` [requests]: its wavefronts that were sent in vain, while an S2R had the data stage.
    * `beyond` [requests]: the sectors that it loaded from beyond L1.
    * `result` [issues]: for an instruction of no fixed latency that is no request, the cycle in which its result was
      there, its copy done, or its wait over; -1 for all others.
    * `warp_start`, `warp_end`, `warp_sub_core`, `warp_slot` [warps]: a warp ends after its drain.
    * `cta_start`, `cta_end`, `cta_slot` [ctas].
    * `read_cycles`, `write_cycles`: cycles of the data stage's ports used by reads and by writes.
    * `loaded_sectors`, `stored_sectors`: sectors from and to beyond L1, without those that merged with a waiting line.
    * `sent_sectors`: sectors on the path of stores, with the masks of lines written in part.
    * `more`: the columns of other units, by name.
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
        """Cycles from the launch of the first CTA to the end of the last warp."""
        return int(self.warp_end.max(initial=0))
