"""The path on which the data of stores follow their addresses, one for all sub-cores.

It takes `data_registers_per_cycle`, and a register of one store every `cycles_per_source_register`. The register that
has waited longest goes first, of several the one of the store that could leave its queue first; stores that could leave
in the same cycle take turns. H200: STS.128 of 2, 3, 4 sub-cores issued together have been read after 19, 22, 25 cycles,
STG.128 after 21, 25, 29, each a cycle behind another; of 120 sequences of six stores 97 are read to the cycle, and the
others have 128-bit stores of 3 and 4 sub-cores behind one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Request


class _Sending:
    """A store with `left` registers to send, the next at `due` at the earliest; `since`: when it could leave.

    `told`: until when it is known to whom it matters that the next one waits.
    """

    __slots__ = ("due", "left", "request", "since", "sub_core", "told")

    def __init__(self, request: Request, sub_core: int, since: int, due: int, left: int):
        self.request = request
        self.sub_core = sub_core
        self.since = since
        self.due = self.told = due
        self.left = left


class DataPath:
    """Decides when the registers of stores are sent, as far as all stores are known."""

    def __init__(self, machine: Machine):
        self._each = machine.cycles_per_source_register
        self._width = machine.data_registers_per_cycle
        self._sending: list[_Sending] = []
        self._served_at = [i - machine.sub_cores for i in range(machine.sub_cores)]
        self._cycle = 0  # all is sent that is sent before

    def send(self, request: Request, sub_core: int, since: int, due: int, registers: int) -> None:
        """A store has so many registers to send from `due` on; it could leave its queue since `since`."""
        self._sending.append(_Sending(request, sub_core, since, due, registers))

    def advance(self, until: int) -> list[tuple[Request, int]]:
        """Send what is sent before `until`; every store that has something due by then is known.

        Returns which stores have waited for how long.
        """
        if not self._sending or until <= self._cycle:
            return []
        waited: list[tuple[Request, int]] = []
        cycle = self._cycle
        while self._sending and (cycle := max(cycle, min(sending.due for sending in self._sending))) < until:
            for sending in self._next(cycle):
                if cycle > sending.told:
                    waited.append((sending.request, cycle - sending.told))
                self._served_at[sending.sub_core] = cycle
                sending.due = sending.told = cycle + self._each
                sending.left -= 1
                if not sending.left:
                    self._sending.remove(sending)
            cycle += 1
        for sending in self._sending:
            if sending.told < until:
                waited.append((sending.request, until - sending.told))
                sending.told = until
        self._cycle = until
        return waited

    def _next(self, cycle: int) -> list[_Sending]:
        """Those that send a register in this cycle."""
        ready = [sending for sending in self._sending if sending.due <= cycle]
        if len(ready) <= self._width:
            return ready
        chosen: list[_Sending] = []
        while len(chosen) < self._width:
            first = min(ready, key=lambda sending: (sending.due, sending.since))
            together = [sending for sending in ready if sending.since == first.since]
            chosen.append(min(together, key=lambda sending: self._served_at[sending.sub_core]))
            ready.remove(chosen[-1])
        return chosen
