"""A whole launch in time: its CTAs on all SMs, step by step.

Each warp is a list of steps (see `steps`): work that takes cycles and occupies its sub-core or the data stage of its
SM, then a request that leaves the SM, a wait for a reply, an arrival at a meeting, or a wait for it. The steps of all
warps are taken in the order of time, so the reply to a request moves everything that waits for it.

Atomics on words of one block of 512 bytes follow each other. A CTA that ends is reported, one every `report_cycles`;
then its place is free for the next CTA.

Plain functions on flat sequences of numbers, of which `engine.twins` makes compiled twins.
"""

from __future__ import annotations

from gpuemu.chip.events import is_any, pop, push
from gpuemu.chip.memory import (
    BLOCKS,
    COUNTS,
    DONE,
    END_AT,
    LAST,
    SUB_CORES,
    WORKED,
    find,
    keep_line,
    load_line,
    mixed,
    sectors_in,
    share,
    slices_at,
    store_line,
    take,
)
from gpuemu.chip.state import Simulation, Steps

RUN, LOAD, STORE, ATOMIC, REDUCTION, REPLY, ARRIVE, MEET, END, PRODUCT = range(10)
"""The action of a step after its work: none, a request of four kinds, a wait for a reply, an arrival at a meeting, a
wait for the meeting, the end of the warp, or a product that the tensor core computes while the warp goes on.
"""
FIXED, PRIVATE = -1, -2
"""Moves of an address: it is the same for all CTAs, or each CTA has its own."""
ANYWHERE = -1
"""In place of the turns of a move: any lines of its range."""
LINE_BITS, SECTOR_BITS, BLOCK_BITS = 7, 5, 9
OWN_BITS, FAR_AWAY = 30, 1 << 50
"""Data that each CTA has for itself lie 2**OWN_BITS bytes apart, from FAR_AWAY on."""
RANK_BITS = 32
"""Bits of a rank for the steps that a warp did; the others are its CTA."""
NOWHERE, OWN = -(1 << 60), -(1 << 59)
"""In place of a distance: the CTA does not access the line, or it has data of its own."""


def address_of(launch: Simulation, line: int, cta: int) -> int:
    """The address of a line of the steps for a CTA, or -1 if the CTA does not access it."""
    steps, moves = launch.steps, launch.moves
    move, address = steps.move[line], steps.address[line]
    own = address + FAR_AWAY + (cta << OWN_BITS)
    if move == FIXED:
        return address
    if move == PRIVATE:
        return own
    if moves.turns[move] == ANYWHERE:
        lines = moves.length[move] >> LINE_BITS
        return moves.begin[move] + (mixed(line << 20 ^ cta) * lines >> 31 << LINE_BITS)
    index = moves.of[move] + cta
    if moves.turns[move] > 0:
        index = moves.of[move] + cta * moves.turns[move] + steps.turn[line]
    far = moves.far[index]
    if far == NOWHERE:
        return -1
    if far == OWN:
        return own
    return moves.begin[move] + (address + far - moves.begin[move]) % moves.length[move]


def leaves_out(launch: Simulation, line: int, most: float) -> bool:
    """Whether a CTA with this fraction of the loads or stores leaves out a line. Known copies say so themselves."""
    move = launch.steps.move[line]
    return launch.steps.before[line] >= most and not (move >= 0 and launch.moves.turns[move] > 0)


def part_of(steps: Steps, line: int, address: int, part: int) -> tuple[int, int]:
    """The sectors of a request in the line of its address, or in the next one, and how many are sent for them."""
    mask, sent = steps.mask[line] << (address >> SECTOR_BITS & 3), steps.sent[line]
    low, high = mask & 15, mask >> 4
    if low == 0 or high == 0:
        return (low, sent) if part == 0 else (high, sent)
    first = sent * sectors_in(low) // sectors_in(mask)
    return (low, first) if part == 0 else (high, sent - first)


def send(launch: Simulation, sm: int, number: int, line: int, part: tuple[int, int], now: float, kind: int) -> float:
    """Store to a line, or execute atomics there; return when L2 has the data, or when the reply of an atomic comes."""
    memory, chip, at = launch.memory, launch.chip, slices_at(launch.chip)
    mask, sent = part
    changes = kind != STORE
    port, out = at[5] + sm, (sent + launch.steps.masks[line]) * chip.out_sector
    leaves = now + take(memory, port, now, out) + out
    cycles = chip.slice_line if changes else chip.store_line
    taken = max(leaves, store_line(memory, chip, sm, number, mask, sent, now, cycles, changes))
    memory.free[port] = max(memory.free[port], taken - chip.l2_cycles)
    done = taken
    if changes:
        place, serial = find(memory, chip.sets, 2 * number + sm * chip.gpcs // chip.sms % 2), launch.steps.serial[line]
        taken = max(taken, memory.comes[place])
        block = at[9] + (mixed(number >> BLOCK_BITS - LINE_BITS) & BLOCKS - 1)
        taken += take(memory, block, taken, serial) + serial
    memory.counts[LAST] = max(memory.counts[LAST], taken)
    return taken + chip.atomic_cycles if kind == ATOMIC else done


def ask(launch: Simulation, sm: int, cta: int, step: int, now: float) -> float:
    """Send the request of a step; return the cycle of its reply, or in which L2 has taken what it stores."""
    steps, moves, chip, memory = launch.steps, launch.moves, launch.chip, launch.memory
    kind, request = steps.kind[step], steps.at[step]
    stores = kind != LOAD
    most = moves.stores[cta] if stores else moves.loads[cta]
    now += steps.lead[request]
    done = now
    for line in range(steps.line_of[request], steps.line_of[request + 1]):
        address = address_of(launch, line, cta)
        if address < 0 or leaves_out(launch, line, most):
            continue
        for part in range(2):  # the data of another CTA may lie across two lines
            mask, sent = part_of(steps, line, address, part)
            if mask == 0:
                continue
            number = (address >> LINE_BITS) + part
            if not stores:
                reply = load_line(memory, chip, sm, number, mask, sent, now, steps.masks[line] == 0)
            else:
                reply = send(launch, sm, number, line, (mask, sent), now, kind)
            done = max(done, reply)
    return done


def core_of(launch: Simulation, place: int, w: int) -> int:
    """The sub-core of a warp, of those of all SMs."""
    steps, resident = launch.steps, launch.chip.resident
    return SUB_CORES * (place // resident) + (steps.sub_core[w] + place % resident * len(steps.start)) % SUB_CORES


def go_on(launch: Simulation, warp: int, now: float) -> None:
    """A warp does the work before its next step."""
    steps, chip, places, memory = launch.steps, launch.chip, launch.places, launch.memory
    warps = len(steps.start)
    place, w = warp // warps, warp % warps
    places.next[warp] += 1
    step, at = places.next[warp], slices_at(chip)
    part = launch.moves.work[places.on[place]]
    ready = now + part * steps.wait[step]
    issue, stage = part * steps.issue[step], part * steps.stage[step]
    memory.counts[WORKED] += ready - now + issue
    if stage > 0:
        ready = max(ready, now + take(memory, at[7] + place // chip.resident, now, stage) + stage)
    if issue > 0:
        core = core_of(launch, place, w)
        if chip.older_first > 0 and (places.in_line[core] > 0 or memory.free[at[6] + core] > now):
            places.wants[warp], places.ready[warp] = issue, ready
            places.rank[warp] = (places.on[place] << RANK_BITS) + step - steps.first[w]
            places.line[core * (len(places.line) // len(places.in_line)) + places.in_line[core]] = warp
            places.in_line[core] += 1
            if places.in_line[core] == 1:
                push(launch.queue, memory.free[at[6] + core], -1 - len(places.on) - core)
            return
        ready = max(ready, now + take(memory, at[6] + core, now, issue) + issue)
    push(launch.queue, ready, warp)


def serve(launch: Simulation, core: int, now: float) -> None:
    """A sub-core is free: of the warps in line, one of the oldest CTA goes on, the one that did the fewest steps."""
    places, memory = launch.places, launch.memory
    unit, each, count = slices_at(launch.chip)[6] + core, len(places.line) // len(places.in_line), places.in_line[core]
    first = best_at = core * each
    best = places.line[first]
    for at in range(first + 1, first + count):
        warp, later = places.line[at], places.rank[places.line[at]] - places.rank[best]
        if later < 0 or (later == 0 and warp < best):
            best, best_at = warp, at
    places.line[best_at] = places.line[first + count - 1]
    places.in_line[core] = count - 1
    issue = places.wants[best]
    take(memory, unit, now, issue)
    push(launch.queue, max(places.ready[best], now + issue), best)
    if count > 1:
        push(launch.queue, memory.free[unit], -1 - len(places.on) - core)


def begin_cta(launch: Simulation, place: int, cta: int, at: float) -> None:
    """A CTA takes a place."""
    steps, places = launch.steps, launch.places
    warps, meetings = len(steps.start), len(steps.arrivals)
    places.on[place], places.live[place], places.ends[place] = cta, warps, 0.0
    places.taken[place // launch.chip.resident] += 1
    for meeting in range(meetings):
        places.missing[place * meetings + meeting] = steps.arrivals[meeting]
        places.met[place * meetings + meeting] = 0.0
    for w in range(warps):
        places.next[place * warps + w] = steps.first[w] - 1
        places.parked[place * warps + w] = -1
        push(launch.queue, at + steps.start[w], place * warps + w)


def arrive(launch: Simulation, place: int, meeting: int, when: float) -> None:
    """An arrival at a meeting in the cycle `when`; the last one lets the warps go on that wait there."""
    steps, places = launch.steps, launch.places
    warps, number = len(steps.start), place * len(steps.arrivals) + meeting
    places.met[number] = max(places.met[number], when)
    places.missing[number] -= 1
    if places.missing[number] == 0:
        for warp in range(place * warps, place * warps + warps):
            if places.parked[warp] == meeting:
                places.parked[warp] = -1
                push(launch.queue, places.met[number], warp)


def take_step(launch: Simulation, warp: int, now: float) -> None:
    """A warp has done the work before a step, and takes the step."""
    steps, places = launch.steps, launch.places
    warps, meetings, requests = len(steps.start), len(steps.arrivals), len(steps.lead)
    place, step = warp // warps, places.next[warp]
    if step < steps.first[warp % warps]:
        go_on(launch, warp, now)
        return
    kind, at = steps.kind[step], steps.at[step]
    if kind in (LOAD, STORE, ATOMIC, REDUCTION):
        reply = ask(launch, place // launch.chip.resident, places.on[place], step, now)
        places.reply[place * requests + at] = reply
        places.ends[place] = max(places.ends[place], reply)
        if steps.meets[at] >= 0:
            arrive(launch, place, steps.meets[at], reply)
    elif kind == PRODUCT:
        core = slices_at(launch.chip)[8] + core_of(launch, place, warp % warps)
        turn = now + take(launch.memory, core, now, steps.takes[at])
        places.reply[place * requests + at] = turn + steps.lead[at]
    elif kind == REPLY:
        if places.reply[place * requests + at] > now:
            push(launch.queue, places.reply[place * requests + at], warp)
            return
    elif kind == ARRIVE:
        arrive(launch, place, at, now)
    elif kind == MEET:
        number = place * meetings + at
        if places.missing[number] > 0:
            places.parked[warp] = at
            return
        if places.met[number] > now:
            push(launch.queue, places.met[number], warp)
            return
    elif kind == END:
        places.live[place] -= 1
        places.ends[place] = max(places.ends[place], now + at)
        if places.live[place] == 0:
            push(launch.queue, places.ends[place] + steps.tail, -1 - place)
        return
    go_on(launch, warp, now)


def leave(launch: Simulation, until: int) -> None:
    """Leave L2 as the CTAs from `first` to `until` do round by round, without time. Stores make lines dirty."""
    steps, places = launch.steps, len(launch.places.order)
    for start in range(launch.first, until, places):
        for request in range(len(steps.lead)):
            for cta in range(start, min(start + places, until)):
                leave_request(launch, cta, request)


def leave_request(launch: Simulation, cta: int, request: int) -> None:
    """Leave the lines of a CTA's request in L2."""
    steps, moves, chip = launch.steps, launch.moves, launch.chip
    side = launch.places.order[cta % len(launch.places.order)] * chip.gpcs // chip.sms % 2
    for line in range(steps.line_of[request], steps.line_of[request + 1]):
        address = address_of(launch, line, cta)
        if address < 0 or leaves_out(launch, line, max(moves.loads[cta], moves.stores[cta])):
            continue
        for part in range(2):
            mask, _ = part_of(steps, line, address, part)
            if mask:
                key = 2 * ((address >> LINE_BITS) + part) + side
                keep_line(launch.memory, chip, key, mask, steps.stores[request])


def run(launch: Simulation, until: int) -> int:
    """Run the CTAs up to number `until`; return how many have ended, fewer only if warps wait forever."""
    chip, memory = launch.chip, launch.memory
    if launch.first >= 0:
        leave(launch, until)
        return 0
    report = slices_at(chip)[9] + BLOCKS
    begun = min(until, chip.sms * chip.resident)
    for cta in range(begun):
        sm, each = launch.places.order[cta], cta // chip.sms
        later = share(sm) * chip.start_spread
        begin_cta(launch, sm * chip.resident + each, cta, chip.overhead_cycles + later + each * chip.cta_interval)
    while is_any(launch.queue):
        now = launch.queue.when[0]
        what = pop(launch.queue)
        if what >= 0:
            take_step(launch, what, now)
            continue
        if what < -len(launch.places.on):
            serve(launch, -1 - len(launch.places.on) - what, now)
            continue
        told = now + take(memory, report, now, chip.report_cycles) + chip.report_cycles
        drained = told + (0.5 + share((-1 - what) // chip.resident) / 2) * chip.drain
        memory.counts[END_AT] = max(memory.counts[END_AT], drained)
        memory.counts[DONE] += 1
        for mark in range(len(launch.marks)):
            if launch.marks[mark] == int(memory.counts[DONE]):
                for count in range(COUNTS):
                    launch.kept[mark * COUNTS + count] = memory.counts[count]
        if begun < until:
            later = chip.cta_launch + (share(begun + 7) - 0.5) * chip.cta_launch_spread
            begin_cta(launch, -1 - what, begun, told + later)
            begun += 1
    return int(memory.counts[DONE])
