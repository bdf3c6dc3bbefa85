"""The groups of lanes in a CTA, and the targets of branches, calls and returns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import parse_integer
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask, any_lane, ballots, every_lane
from gpuemu.sass.machine.operands import Getter, Site
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.groups import Group
from gpuemu.sass.machine.system_calls import SystemCalls
from gpuemu.trace.listing import INSTRUCTION_BYTES

WHOLE_WARP = np.uint32(0xFFFFFFFF)

Handler = Callable[[Group, int], bool]
"""Executes a control instruction for a group at its pc; returns whether the group continues unchanged."""


class Jumps:
    """The groups of a CTA, and the instructions that determine where lanes continue."""

    def __init__(self, environment: Environment):
        self.environment = environment
        self._lanes = environment.lanes
        self._index_of = {instruction.offset: i for i, instruction in enumerate(environment.code)}
        self._sites = [Site(instruction, environment) for instruction in environment.code]
        self._guards = [guard_of(site) for site in self._sites]
        self._system = SystemCalls(environment)
        self._groups: list[Group] = []
        self._recorder: Recorder | None = None
        self._keep = False

    def _present(self, mask: Mask) -> NDArray[np.bool_]:
        return self._lanes.exists if mask is None else mask

    def _group(self, pc: int, mask: NDArray[np.bool_]) -> Group:
        assert self._recorder is not None
        whole: Mask = None if every_lane(mask) else mask.copy()
        return Group(pc, whole, self._recorder.set_of(whole))

    def _effective(self, group: Group, pc: int) -> NDArray[np.bool_]:
        """Return the lanes of the group whose guard is true; the array may be the predicate itself."""
        guard = self._guards[pc]
        if guard is None:
            return self._present(group.mask)
        return np.asarray(guard()) if group.mask is None else group.mask & guard()

    def _target(self, site: Site, text: str) -> int:
        address = parse_integer(text)
        index = None if address is None else self._index_of.get(address)
        if index is None:
            raise site.unsupported(f"the target {text}, which is not an instruction of this function")
        return index

    def _go(self, group: Group, taken: NDArray[np.bool_], target: int, otherwise: int) -> bool:
        """Send `taken` lanes of the group to `target`, and the others to `otherwise`."""
        if not any_lane(taken):
            group.pc = otherwise
            return True
        rest = ~taken if group.mask is None else group.mask & ~taken
        if not any_lane(rest):
            group.pc = target
            return True
        self._groups.remove(group)
        self._groups += [self._group(target, taken), self._group(otherwise, rest)]
        return False

    def _chosen(self, site: Site) -> Callable[[Group, int], NDArray[np.bool_]]:
        """Return a function for the lanes that an instruction selects by its guard and its predicate operands."""
        conditions = [site.predicate(k) for k in predicates_of(site)]

        def chosen(group: Group, pc: int) -> NDArray[np.bool_]:
            lanes = self._effective(group, pc)
            for condition in conditions:
                lanes = lanes & condition()
            return lanes

        return chosen

    def _branch(self, site: Site) -> Handler:
        target = self._target(site, site.instruction.operands[-1])
        conditions, chosen = predicates_of(site), self._chosen(site)
        mask_operand: Getter | None = None
        if site.has("DIV", "CONV"):
            # The lanes that would have to be together; all of the warp if the text names none.
            mask_operand = site.source(0) if len(site.operands) > 1 else lambda: WHOLE_WARP
            diverges = site.has("DIV")
        elif len(conditions) != len(site.operands) - 1:
            raise site.unsupported("this form of branch")
        all_follow = site.has("ANY")  # all lanes of a warp jump if any does
        all_agree = jumps_whole(site)

        def jump(group: Group, pc: int) -> bool:
            group.pc = target
            return True

        if guard_of(site) is None and not conditions and mask_operand is None:
            return jump

        def handler(group: Group, pc: int) -> bool:
            taken = chosen(group, pc)
            if mask_operand is not None:
                wanted = np.broadcast_to(mask_operand(), (self._lanes.count,)) & np.repeat(
                    ballots(self._lanes.exists), WARP
                )
                # CONV is for lanes that all jump together; if one would not, none does.
                together = np.repeat(ballots(self._present(group.mask) if diverges else taken), WARP) == wanted
                taken = taken & (together ^ diverges)
            if all_agree:
                taken = taken & np.repeat(ballots(taken) == ballots(self._present(group.mask)), WARP)
            if all_follow:
                taken = self._present(group.mask) & np.repeat(ballots(taken) != 0, WARP)
            return self._go(group, taken, target, pc + 1)

        return handler

    def _call(self, site: Site) -> Handler:
        text = site.instruction.operands[0]
        address = parse_integer(text)
        if address is None:
            return self._computed(site)
        if len(site.operands) > 1:
            raise site.unsupported("this form of call")
        name = self.environment.codeless.get(address)
        if name is not None:
            return self._computed(site)
        target = self._target(site, text)
        return lambda group, pc: self._go(group, self._effective(group, pc), target, pc + 1)

    def _destinations(self, site: Site) -> Getter:
        """Return the byte offsets of each lane's jump: int64 [lanes].

        .REL and BRX: a 32-bit register value relative to a base. .ABS: a 64-bit address.
        """
        base = 0
        if len(site.operands) == 2:
            base = int(site.instruction.operands[1], 16)
            if site.mnemonic in ("BRX", "BRXU"):
                base += site.instruction.offset + INSTRUCTION_BYTES
        count = self._lanes.count
        if site.has("ABS") and site.mnemonic in ("CALL", "RET") and base == 0:
            address = parse_integer(site.instruction.operands[0])
            if address is not None:
                fixed = np.full(count, address, dtype=np.int64)
                return lambda: fixed
            get = site.source64(0)
            return lambda: np.broadcast_to(get(), (count,)).view(np.int64)
        if site.has("ABS") or len(site.operands) != 2:
            raise site.unsupported("this form of jump")
        get = site.source(0)
        return lambda: np.broadcast_to(get(), (count,)).view(np.int32).astype(np.int64) + base

    def _computed(self, site: Site) -> Handler:
        """Handle RET, BRX and calls through a register: lanes go to its address, or into the driver and back."""
        get = self._destinations(site)
        is_call, codeless, entries = site.mnemonic == "CALL", self.environment.codeless, self.environment.entries

        def handler(group: Group, pc: int) -> bool:
            offsets = get()
            here = self._effective(group, pc)
            if is_call:
                for address in np.unique(offsets[here]).tolist():
                    if address in codeless:
                        lanes = here & (offsets == address)
                        back = self._system.call(codeless[address], site, lanes)
                        offsets = np.where(lanes, back.view(np.int64), offsets)
                    elif address in entries:
                        offsets = np.where(here & (offsets == address), entries[address], offsets)
            parts = []
            for offset in np.unique(offsets[here]).tolist():
                index = self._index_of.get(offset)
                if index is None:
                    lane = int(np.argmax(here & (offsets == offset)))
                    raise ExecutionError(
                        site.instruction,
                        lane,
                        f"a jump to {offset:#x}",
                        "Jump to an instruction of the function",
                    )
                parts.append((index, here & (offsets == offset)))
            rest = self._present(group.mask) & ~here
            if rest.any():
                parts.append((pc + 1, rest))
            if len(parts) == 1:
                group.pc = parts[0][0]
                return True
            self._groups.remove(group)
            self._groups += [self._group(index, lanes) for index, lanes in parts]
            return False

        return handler


def predicates_of(site: Site) -> list[int]:
    """Return the operands that are predicates."""
    return [k for k in range(len(site.operands)) if site.is_predicate(k)]


def jumps_whole(site: Site) -> bool:
    """Whether a branch never splits a warp: BRA.U jumps if all lanes of the warp would, and otherwise none does.

    Compilers put it in front of a branch of the same predicate that may split the warp, between BSSY and BSYNC.
    """
    per_lane = guard_of(site) is not None or any(not site.is_uniform(k) for k in predicates_of(site))
    return site.has("U") and not site.has("ANY") and per_lane


def guard_of(site: Site) -> Getter | None:
    """Return the getter of a guard such as @!P0, or None if there is none or it is always true."""
    text = site.instruction.guard
    if text in ("", "@PT", "@UPT"):
        return None
    lanes = site.guard_lanes(text)
    if text.startswith("@!"):
        return lambda: ~lanes
    return lambda: lanes
