"""Simulates the memory behind the SMs of a chip: the paths to L2, the slices of L2, and the channels of DRAM.

A request is answered at once, by units that remember until when they are busy. Requests come in the order of time.

* An SM has a port for what it loads and one for what it stores, and each GPC a port for what L2 sends to its SMs.
* L2 consists of slices, each with its part of the rates. A line lies in one slice, and takes a place on each side of
  the chip that uses it. The least recently used line of a set is evicted.
* A slice passes misses to a channel of DRAM. A store makes its half of a line dirty. If too many are, the
  oldest are written back. Dirty halves that stay take `dirty_share` of that time, as more are dirty than ever before.
* Each block of DRAM is refreshed every so often, and does not answer meanwhile.
* Equal loads of a GPC's SMs merge, if they come while the first waits in the queue of its slice or for DRAM, or within
  a window behind it. The others wait only for the reply to the first, so SMs that ask for the same stay together.

Plain functions on flat sequences of numbers, of which `engine.twins` makes compiled twins.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = MutableSequence[int] | NDArray[np.int64]
Floats = MutableSequence[float] | NDArray[np.float64]
"""Arrays for compiled code, and lists for plain Python, which reads them faster."""

WAYS, SUB_CORES, BLOCKS, MERGES = 16, 4, 1 << 12, 1 << 15
"""Lines of a set of L2, sub-cores of an SM, and places for blocks of atomics and for loads that may merge."""
RECENT_CYCLES = 2000.0
"""How busy a channel is, is known from about so long before."""
LINE_BYTES, HALF_BYTES = 128, 64
"""A line of L2, of which DRAM transfers a half at a time."""
LOADED, ASKED, STORED, READ, DIRTIED, WRITTEN, UNWRITTEN, CLOCK, LAST, DONE, END_AT, OLDEST = range(12)
PEAK, WORKED, COUNTS = range(12, 15)
"""The counts: sectors that SMs load, that L2 is asked for, and that are stored; halves that DRAM reads, that become
dirty, that are written back, that are dirty now; touches so far; the cycle of the last store; CTAs done; the cycle of
the last report; the place in `ring` of the oldest dirty half; the
most halves that were dirty; cycles of warps for work of their own.
"""


class Chip(NamedTuple):
    """The numbers of a chip, in cycles, and cycles per sector, line or half. With 0, a resource limits nothing.

    `half_alone`: what a half of a line takes more than half of a line's time, as a fraction, if the other half is not
    on its way. `older_first`: whether a sub-core prefers warps of older CTAs.
    """

    sms: int
    gpcs: int
    resident: int
    slices: int
    channels: int
    sets: int
    l2_cycles: float
    dram_cycles: float
    atomic_cycles: float
    far_cycles: float
    far_sm_cycles: float
    slice_line: float
    slice_sector: float
    gpc_sector: float
    sm_sector: float
    sm_line: float
    out_sector: float
    store_line: float
    store_sector: float
    channel_half: float
    half_alone: float
    spread_cycles: float
    wait_cycles: float
    wait_power: int
    refresh_interval: float
    refresh_cycles: float
    refresh_lines: int
    block_lines: int
    dirty_share: float
    buffered_cycles: float
    merged: int
    merge_cycles: float
    slice_queue: float
    overhead_cycles: float
    cta_interval: float
    start_spread: float
    drain: float
    cta_launch: float
    cta_launch_spread: float
    report_cycles: float
    older_first: int


class MemoryUnits(NamedTuple):
    """The state of the memory: until when each unit is busy, and how long it was.

    L2 has a tag, the touch, the halves that are present and dirty, whether an earlier launch has `changed` what it had
    loaded there, and the cycle of arrival for each place. A ring has the lines that became dirty, in order; its length
    limits how many are dirty. Loads that may merge have their key, the end of the window, how many merged, the last SM,
    and the reply.
    """

    free: Floats
    busy: Floats
    tag: Ints
    touch: Ints
    present: Ints
    dirty: Ints
    changed: Ints
    comes: Floats
    ring_key: Ints
    ring_halves: Ints
    merge_key: Ints
    merge_until: Floats
    merge_count: Ints
    merge_sm: Ints
    merge_reply: Floats
    recent: Floats
    since: Floats
    counts: Floats


def mixed(number: int) -> int:
    """31 bits that depend on all bits of a number below 2**62."""
    low, high = number & 0x7FFFFFFF, number >> 31
    low = ((low ^ low >> 15) * 0x2C1B3C6D ^ high * 0x297A2D39) & 0x7FFFFFFF
    low = (low ^ low >> 12) * 0x3B9ACA07 & 0x7FFFFFFF
    return low ^ low >> 15


def share(number: int) -> float:
    """A fraction that depends on all bits of a number below 2**62."""
    return mixed(number) / 2147483648.0


def slices_at(chip: Chip) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Where the units begin in `free`: slices for loads, for stores, channels, GPCs, SMs' ports in and out, sub-cores,
    data stages, tensor cores of sub-cores, blocks of atomics. The report of ended CTAs comes last.
    """
    stores = chip.slices
    channels = 2 * chip.slices
    gpcs = channels + chip.channels
    ins = gpcs + chip.gpcs
    outs = ins + chip.sms
    cores = outs + chip.sms
    stages = cores + SUB_CORES * chip.sms
    tensors = stages + chip.sms
    return 0, stores, channels, gpcs, ins, outs, cores, stages, tensors, tensors + SUB_CORES * chip.sms


def units(chip: Chip) -> int:
    """The number of units in `free`."""
    return slices_at(chip)[9] + BLOCKS + 1


def take(memory: MemoryUnits, unit: int, now: float, cycles: float) -> float:
    """Occupy a unit from `now` on, or from when it is free; return the wait until then."""
    begin = max(memory.free[unit], now)
    memory.free[unit] = begin + cycles
    memory.busy[unit] += cycles
    return begin - now


def pressure(memory: MemoryUnits, channel: int, now: float, cycles: float) -> float:
    """The share of its recent time for which a channel of DRAM was busy, to which `cycles` are added."""
    passed = max(0.0, now - memory.since[channel])
    memory.since[channel] = max(now, memory.since[channel])
    memory.recent[channel] = memory.recent[channel] / (1 + passed / RECENT_CYCLES) + cycles
    return min(1.0, memory.recent[channel] / RECENT_CYCLES)


def transfer(memory: MemoryUnits, chip: Chip, line: int, now: float, halves: float) -> float:
    """The wait for the channel of DRAM behind a line, which then transfers halves of lines.

    The wait for banks and their rows is drawn. On average it is in proportion to how busy the channel is.
    A random share to the power of `wait_power` gives how long it is: the higher, the fewer wait, and the longer.
    """
    drawn = mixed(line + 777) / 2147483648.0
    late = drawn
    for _ in range(1, chip.wait_power):
        late *= drawn
    channel = part_of_all(line, chip.slices) * chip.channels // chip.slices
    unit = slices_at(chip)[2] + channel
    begin = max(memory.free[unit], now)
    memory.free[unit] = begin + halves * chip.channel_half
    memory.busy[unit] += halves * chip.channel_half
    share = pressure(memory, channel, now, halves * chip.channel_half)
    return begin - now + (chip.wait_power + 1) * chip.wait_cycles * late * share


def part_of_all(line: int, parts: int) -> int:
    """The part of so many, sets or slices, that a line belongs to. Lines that follow one another fill all alike."""
    return (line + mixed(line // parts)) % parts


def find(memory: MemoryUnits, sets: int, key: int) -> int:
    """The place of a line in L2, or -1."""
    first = part_of_all(key >> 1, sets)
    for place in range(first * WAYS, first * WAYS + WAYS):
        if memory.tag[place] == key:
            return place
    return -1


def enter(memory: MemoryUnits, chip: Chip, key: int, now: float) -> int:
    """Give a line a place in L2; the least recently used line of the set leaves it, and DRAM takes its dirty halves.

    With a negative cycle, nothing takes time.
    """
    first = part_of_all(key >> 1, chip.sets)
    best = first * WAYS
    for place in range(first * WAYS, first * WAYS + WAYS):
        if memory.touch[place] < memory.touch[best]:
            best = place
    gone = (memory.dirty[best] & 1) + (memory.dirty[best] >> 1)
    memory.counts[WRITTEN] += gone
    memory.counts[UNWRITTEN] -= gone
    if gone > 0 and now >= 0:
        transfer(memory, chip, memory.tag[best] >> 1, now, gone)
    memory.tag[best] = key
    memory.present[best] = memory.dirty[best] = memory.changed[best] = 0
    memory.comes[best] = 0.0
    return best


def touched(memory: MemoryUnits, chip: Chip, key: int, now: float) -> int:
    """The place of a line in L2, as the most recently used; it gets one if it has none."""
    place = find(memory, chip.sets, key)
    if place < 0:
        place = enter(memory, chip, key, now)
    memory.counts[CLOCK] += 1
    memory.touch[place] = int(memory.counts[CLOCK])
    return place


def halves_of(mask: int) -> int:
    """A bit for each half of a line of which a sector is in the mask."""
    return (1 if mask & 3 else 0) | (2 if mask & 12 else 0)


def sectors_in(mask: int) -> int:
    """The number of bits that are set, of seven."""
    return (0x4332322132212110 >> 4 * (mask & 15) & 15) + (0x4332322132212110 >> 4 * (mask >> 4) & 15)


def distance(chip: Chip, sm: int, piece: int) -> float:
    """The cycles by which a slice of L2 lies farther from an SM than on average."""
    of_sm = mixed(sm + 77) / 1073741824.0 - 1.0
    of_both = mixed(piece * chip.sms + sm + 777) / 1073741824.0 - 1.0
    return chip.far_sm_cycles * of_sm + (chip.far_cycles - chip.far_sm_cycles) * of_both


def load_line(
    memory: MemoryUnits, chip: Chip, sm: int, line: int, mask: int, sent: int, now: float, joins: bool
) -> float:
    """The cycle in which the sectors of a line have come to an SM. `joins`: whether it may merge with others."""
    at = slices_at(chip)
    gpc = sm * chip.gpcs // chip.sms
    memory.counts[LOADED] += sent
    port = max(sent * chip.sm_sector, chip.sm_line)
    queue = take(memory, at[4] + sm, now, port)
    piece = part_of_all(line, chip.slices)
    far = distance(chip, sm, piece)
    slot = mixed(line * chip.gpcs + gpc) & MERGES - 1
    key = (line * chip.gpcs + gpc) * 16 + mask
    waits = joins and memory.merge_key[slot] == key and now < memory.merge_until[slot]
    if waits and memory.merge_count[slot] < chip.merged and memory.merge_sm[slot] != sm:
        memory.merge_count[slot] += 1
        memory.merge_sm[slot] = sm
        return max(memory.merge_reply[slot], now + chip.l2_cycles - chip.merge_cycles + queue) + far
    memory.counts[ASKED] += sent
    queue = max(queue, take(memory, at[3] + gpc, now, sent * chip.gpc_sector))
    looked = take(memory, at[0] + piece, now, max(chip.slice_line, sent * chip.slice_sector))
    place = touched(memory, chip, 2 * line + gpc % 2, now)
    found = now + looked
    fetch(memory, chip, place, 2 * line + gpc % 2, mask, found)
    reply = max(found, memory.comes[place], now + queue) + chip.l2_cycles
    if joins and chip.merged > 1:
        memory.merge_key[slot], memory.merge_count[slot], memory.merge_sm[slot] = key, 1, sm
        there = max(min(found, now + chip.slice_queue), memory.comes[place])
        memory.merge_until[slot] = there + chip.merge_cycles
        memory.merge_reply[slot] = reply
    return reply + far


def fetch(memory: MemoryUnits, chip: Chip, place: int, key: int, mask: int, now: float) -> None:
    """L2 gets the halves of a line that it lacks, from the other side of the chip or from DRAM.

    An H100 gets pieces of 32 bytes, for each of which DRAM reads 64, at 94% of the rate of whole lines, but pieces of
    64 bytes at 72%.
    """
    missing, line = halves_of(mask) & ~memory.present[place], key >> 1
    if missing:
        other = find(memory, chip.sets, key ^ 1)
        if other >= 0:
            if missing & memory.present[other]:
                memory.comes[place] = max(memory.comes[place], memory.comes[other])
            memory.present[place] |= memory.present[other]
            missing &= ~memory.present[place]
    if missing:
        count = (missing & 1) + (missing >> 1)
        memory.counts[READ] += count
        away = chip.dram_cycles + chip.spread_cycles * (mixed(line // chip.block_lines + 7777) / 2147483648.0 - 0.5)
        alone = chip.half_alone if mask in (3, 12) and memory.comes[place] <= now else 0.0
        away += refreshed(chip, line, now)
        memory.comes[place] = now + transfer(memory, chip, line, now, count + alone) + away
        memory.present[place] |= missing


def refreshed(chip: Chip, line: int, now: float) -> float:
    """The cycles that a line waits because its block of DRAM is being refreshed. Each block has a phase of its own."""
    if chip.refresh_cycles == 0:
        return 0.0
    phase = share(line // chip.refresh_lines + 99) * chip.refresh_interval
    return max(0.0, chip.refresh_cycles - (now + phase) % chip.refresh_interval)


def becomes_dirty(memory: MemoryUnits, chip: Chip, place: int, halves: int) -> int:
    """Halves of a line become dirty; the number of halves that are written back for them."""
    fresh = halves & ~memory.dirty[place]
    count, back = (fresh & 1) + (fresh >> 1), 0
    if count == 0:
        return 0
    memory.dirty[place] |= halves
    memory.counts[DIRTIED] += count
    memory.counts[UNWRITTEN] += count
    at = int(memory.counts[OLDEST])
    old = memory.ring_key[at]
    if old >= 0:
        gone = find(memory, chip.sets, old)
        if gone >= 0:
            written = memory.dirty[gone] & memory.ring_halves[at]
            memory.dirty[gone] &= ~written
            back = (written & 1) + (written >> 1)
    memory.counts[WRITTEN] += back
    memory.counts[UNWRITTEN] -= back
    memory.ring_key[at], memory.ring_halves[at] = memory.tag[place], fresh
    memory.counts[OLDEST] = (at + 1) % len(memory.ring_key)
    return back


def store_line(
    memory: MemoryUnits, chip: Chip, sm: int, line: int, mask: int, sent: int, now: float, cycles: float, adds: bool
) -> float:
    """The cycle in which L2 has taken the sectors of a line that an SM stores, each line in at least so many cycles.

    `adds`: it belongs to an atomic, for which L2 fetches what was there.
    """
    at = slices_at(chip)
    gpc = sm * chip.gpcs // chip.sms
    memory.counts[STORED] += sent
    piece = part_of_all(line, chip.slices)
    taken = now + take(memory, at[1] + piece, now, max(cycles, sent * chip.store_sector))
    place = touched(memory, chip, 2 * line + gpc % 2, now)
    if adds:
        fetch(memory, chip, place, 2 * line + gpc % 2, mask, taken)
    memory.present[place] |= halves_of(mask)
    halves = float(becomes_dirty(memory, chip, place, halves_of(mask)))
    more = memory.counts[UNWRITTEN] - memory.counts[PEAK]
    if more > 0:
        memory.counts[PEAK] += more
        halves += chip.dirty_share * more
    behind = transfer(memory, chip, line, now, halves)
    return max(taken, now + behind - chip.buffered_cycles)


def keep_line(memory: MemoryUnits, chip: Chip, key: int, mask: int, stored: int) -> None:
    """A line of an earlier launch, with the sectors of the mask, is the most recently used."""
    place, halves = touched(memory, chip, key, -1.0), halves_of(mask)
    if stored and memory.present[place] & halves & ~memory.dirty[place]:
        memory.changed[place] = 1
    memory.present[place] |= halves
    if stored:
        becomes_dirty(memory, chip, place, halves)
