"""One shared-memory access as a picture: which lanes each wavefront serves, bank by bank.

`gpuemu banks STS.64 --lanes '128*(lane%2) + 8*(lane//4)'` shows

STS.64 on sm_89: 4 wavefronts, ideal 2. A 2-way bank conflict in every phase.
Store, 64 bits per lane, 32 of 32 lanes active; 32 banks of 4 bytes; 4 cycles in the data stage

Lanes that each wavefront serves, by bank
                        0  2  4  6  8 10 12 14 16 18 20 22 24 26 28 30
phase 0  wavefront  1   0+ 4+ 8+12+ .  .  .  .  .  .  .  .  .  .  .  .
         wavefront  2   1+ 5+ 9+13+ .  .  .  .  .  .  .  .  .  .  .  .
phase 1  wavefront  1   .  .  .  . 16+20+24+28+ .  .  .  .  .  .  .  .
         wavefront  2   .  .  .  . 17+21+25+29+ .  .  .  .  .  .  .  .

Shared words, phase 0: 0+ = lanes 0, 2; 4+ = lanes 4, 6; 8+ = lanes 8, 10; 12+ = lanes 12, 14;
                       1+ = lanes 1, 3; 5+ = lanes 5, 7; 9+ = lanes 9, 11; 13+ = lanes 13, 15
Shared words, phase 1: 16+ = lanes 16, 18; 20+ = lanes 20, 22; 24+ = lanes 24, 26;
                       28+ = lanes 28, 30; 17+ = lanes 17, 19; 21+ = lanes 21, 23;
                       25+ = lanes 25, 27; 29+ = lanes 29, 31
Phase 0: banks 0-7 serve 2 words each; bank 0 those of lanes 0+, 1+ (bytes 0 and 128).
Phase 1: banks 8-15 serve 2 words each; bank 8 those of lanes 16+, 17+ (bytes 32 and 160).
gpuemu search finds a layout of the tile without bank conflicts.

How to read it. A phase is a set of lanes that go through the banks together, here 16 lanes of 64 bits. A row is a
wavefront, which the banks serve together. A cell stands for the banks that serve the same lanes everywhere, here two.
In phase 0 the first wavefront writes banks 0 and 1 for lane 0 and another lane (`0+`, which is listed below the
picture), banks 2 and 3 for lane 4 and another, and so on. Banks 8 to 31 (`.`) are idle. Lanes 1, 5, 9 and 13 want other
words of the same banks: they need the second wavefront, which is red on a terminal because it is beyond the ideal.
A phase without active lanes has one row of dots and `-` for a wavefront. `--wide` draws each bank; the dashes are then
the other words of a lane.

The order in which the hardware's banks serve their words is unknown. The picture takes the lowest lanes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple, TextIO

from gpuemu.banks.access import Phase, Served, SharedAccess
from gpuemu.banks.operations import AccessKind
from gpuemu.base import table
from gpuemu.base.shown import shown
from gpuemu.isa.table import parse_opcode

COLUMNS = 100  # unless a terminal says otherwise
HEADING = "Lanes that each wavefront serves, by bank"
# Styles of the rich library; plain output ignores them.
PLAIN, HEAD, IDLE, SERVED, SHARED, EXCESS = "", "bold", "bright_black", "green", "cyan", "bold red"
MOST_RANGES = 6  # a longer list of banks is shortened to its length


class Segment(NamedTuple):
    """Text in one style; the style is a rich style, which plain output ignores."""

    text: str
    style: str


Line = list[Segment]


def segments(lines: Iterable[table.Line]) -> list[Line]:
    """The lines of a table, in the picture's form."""
    styles = {"plain": PLAIN, "strong": HEAD, "faint": IDLE, "good": SERVED, "bad": EXCESS}
    return [[Segment(text, styles[style])] for style, text in lines]


def ranges_of(numbers: Iterable[int]) -> str:
    """Numbers in order, runs of three and more shortened: "0-3, 8, 9"."""
    parts = []
    for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        parts += [f"{values[0]}-{values[-1]}"] if len(values) > 2 else [str(value) for value in values]
    return ", ".join(parts)


def _label(lanes: tuple[int, ...]) -> str:
    return f"{lanes[0]}+" if len(lanes) > 1 else str(lanes[0])


def _by_bank(wavefront: tuple[Served, ...]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Each bank's word, and the lanes that share the word."""
    at: dict[int, tuple[int, tuple[int, ...]]] = {}
    for lane, word, bank in wavefront:
        at[bank] = (word, (*at[bank][1], lane) if bank in at else (lane,))
    return at


def _banks_per_cell(access: SharedAccess) -> int:
    """The number of neighboring banks that always serve the same lanes, so that one cell is enough for them."""
    geometry = access.geometry
    most = geometry.access_bytes(access.kind, access.width) // geometry.bank_width_bytes
    each = 1
    while each < most and geometry.banks % (2 * each) == 0:
        each *= 2
    wavefronts = [_by_bank(wavefront) for phase in access.phases for wavefront in phase.served]
    while each > 1 and not all(_in_groups(at, each) for at in wavefronts):
        each //= 2
    return each


def _in_groups(at: Mapping[int, tuple[int, tuple[int, ...]]], each: int) -> bool:
    first = {bank: at.get(bank - bank % each) for bank in at}
    whole = all(other is not None and at[bank] == (other[0] + bank % each, other[1]) for bank, other in first.items())
    return whole and len(at) == each * len({bank // each for bank in at})


def _cells(wavefront: tuple[Served, ...], banks: range, width: int, excess: bool) -> Iterator[Segment]:
    """The cells of one wavefront. In cells of one bank, dashes are the other words of a lane."""
    at = _by_bank(wavefront)
    for bank in banks:
        if bank not in at:
            yield Segment(".".rjust(width - 1) + " ", IDLE)
            continue
        word, lanes = at[bank]
        continues = banks.step == 1 and bank > banks[0] and at.get(bank - 1) == (word - 1, lanes)
        goes_on = banks.step == 1 and bank < banks[-1] and at.get(bank + 1) == (word + 1, lanes)
        number = "-" * (width - 1) if continues else str(lanes[0]).rjust(width - 1)
        mark = "+" if len(lanes) > 1 and not continues else "-" if goes_on else " "
        yield Segment(number + mark, EXCESS if excess else SHARED if len(lanes) > 1 else SERVED)


def _block(access: SharedAccess, banks: range, heads: Sequence[str], named: bool) -> Iterator[Line]:
    """A block of banks. The rows are `named`, or have only a number if there is no more room."""
    width = max(map(len, heads)) + 1
    several = len(access.phases) > 1
    margin = len(_margin(access, named))
    yield [Segment(" " * margin + "".join(f"{head:>{width - 1}} " for head in heads), HEAD)]
    for phase in access.phases:
        if several and not named:
            yield [Segment(f"phase {phase.index}", PLAIN)]
        for turn, wavefront in enumerate(phase.served or ((),)):
            count = str(turn + 1) if phase.served else "-"
            name = f"{count:>2} "
            if named:
                phase_name = f"phase {phase.index}" if turn == 0 and several else ""
                name = f"{phase_name:9}wavefront {count:>2}  " if several else f"wavefront {count:>2}  "
            yield [
                Segment(name.ljust(margin), PLAIN),
                *_cells(wavefront, banks, width, turn >= phase.ideal_wavefronts > 0),
            ]


def _margin(access: SharedAccess, named: bool) -> str:
    return ("phase 0  " * (len(access.phases) > 1) + "wavefront 99  ") if named else "99 "


def _blocks(access: SharedAccess, columns: int, wide: bool) -> Iterator[Line]:
    """The picture, in as many blocks of banks as the width requires."""
    count, each = access.geometry.banks, 1 if wide else _banks_per_cell(access)
    starts = range(0, count, each)
    ranges = [f"{bank}-{bank + each - 1}" if each > 1 else str(bank) for bank in starts]
    firsts = [str(bank) for bank in starts]

    def room(heads: Sequence[str], named: bool) -> int:
        """The number of cells that fit side by side."""
        return (columns - len(_margin(access, named))) // max(3, max(map(len, heads)) + 1)

    ways = [(heads, named) for named in (True, False) for heads in (ranges, firsts)]
    heads, named = next((way for way in ways if room(*way) >= len(starts)), (firsts, False))
    heads = [head.rjust(2) for head in heads]
    abreast = len(starts) if room(heads, named) >= len(starts) else 32
    while abreast > 8 and room(heads, named) < abreast:
        abreast //= 2
    yield [Segment(HEADING, HEAD)]
    for at in range(0, len(starts), abreast):
        if at:
            yield [Segment("", PLAIN)]
        yield from _block(access, starts[at : at + abreast], heads[at : at + abreast], named)


def _shared_words(phase: Phase) -> list[str]:
    """The lanes behind each "+" of a phase."""
    sharers = dict.fromkeys(
        lanes for wavefront in phase.served for _, lanes in _by_bank(wavefront).values() if len(lanes) > 1
    )
    return [f"{_label(lanes)} = lanes {ranges_of(lanes)}" for lanes in sharers]


def explain(access: SharedAccess) -> list[str]:
    """Why the access costs so many wavefronts, one sentence per cause. The first sentence has the counts."""
    a = access
    shares = a.geometry.shares_words(a.kind)
    takes_turns = not shares or a.kind is AccessKind.COPY
    lines = [f"{summary(a)} {_busy(a)}."]
    if a.merged:
        lanes = len(a.phases[0].lanes)
        lines.append(f"Lanes want the same as their neighbors, so phases were merged into phases of {lanes} lanes.")
    for phase in a.phases:
        if phase.wavefronts > phase.ideal_wavefronts:
            name = f"Phase {phase.index}: " if len(a.phases) > 1 else ""
            conflict = _conflict(a, phase, "requests" if takes_turns else "words")
            lines.append(name + (conflict if name else conflict[0].upper() + conflict[1:]))
    if shares and takes_turns and a.excess_wavefronts:
        lines.append(_WAYS[parse_opcode(a.op.upper()).has("BYPASS")])
    if not shares:
        lines.append("Atomics never share: each lane is a request of its own, also for a word that other lanes want.")
    return lines


_WAYS = {
    False: "Lanes of a copy that read or write the same bank take turns, also for the same word.",
    True: "A copy past L1 goes in pieces: sectors of one line to one line, all in the same order.",
}
"""Why copies through L1, and past it, take more wavefronts."""


def summary(access: SharedAccess) -> str:
    """The counts, and how bad the conflicts are: "8 wavefronts, ideal 4. A 2-way bank conflict in every phase."."""
    active = [phase for phase in access.phases if phase.served]
    found = [phase for phase in active if phase.wavefronts > phase.ideal_wavefronts]
    counts = f"{access.wavefronts} wavefront{'s' * (access.wavefronts != 1)}, ideal {access.ideal_wavefronts}."
    if not found:
        return f"{counts} No bank conflicts."
    ways = {phase.wavefronts / phase.ideal_wavefronts for phase in found}
    way = ways.pop()
    article = "An" if way in (8, 11, 18) else "A"
    what = f"{article} {way:.0f}-way bank conflict" if not ways and way == int(way) else "Bank conflicts"
    if len(active) == 1:
        return f"{counts} {what}."
    return (
        f"{counts} {what} in {'every phase' if len(found) == len(active) else f'{len(found)} of {len(active)} phases'}."
    )


def _busy(access: SharedAccess) -> str:
    cycles = f"{access.data_stage_cycles} cycle{'s' * (access.data_stage_cycles != 1)}"
    floor = ", one per phase" if access.data_stage_cycles > access.wavefronts else ""
    return f"{cycles} in the data stage{floor}"


def _conflict(access: SharedAccess, phase: Phase, requests: str) -> str:
    # A bank that still has work in the last wavefront is among the busiest.
    busiest = sorted(bank for bank in _by_bank(phase.served[-1]) if all(bank in _by_bank(w) for w in phase.served))
    if not busiest:  # a copy, whose lanes also wait for the banks that they read
        parts = [ranges_of(sorted({one.lane for one in wavefront})) for wavefront in phase.served]
        return f"{phase.wavefronts} wavefronts instead of {phase.ideal_wavefronts}, for lanes {'; '.join(parts)}."
    waiting = [_by_bank(wavefront)[busiest[0]][1] for wavefront in phase.served]
    shared = any(len(lanes) > 1 for lanes in waiting)
    firsts = ", ".join(map(_label, waiting)) if shared else ranges_of(lanes[0] for lanes in waiting)
    ideal = f" instead of {phase.ideal_wavefronts}" if phase.ideal_wavefronts > 1 else ""
    what = f"{phase.wavefronts} {requests}{ideal}"
    addresses = [access.lane_byte_addresses[lanes[0]] for lanes in waiting]
    at = f" (bytes {' and '.join(map(str, addresses))})" if len(addresses) == 2 else ""
    if len(busiest) == 1:
        return f"bank {busiest[0]} serves {what}, of lanes {firsts}{at}."
    ranges = ranges_of(busiest)
    banks = f"banks {ranges}" if ranges.count(",") < MOST_RANGES else f"{len(busiest)} banks"
    return f"{banks} serve {what} each; bank {busiest[0]} those of lanes {firsts}{at}."


def picture(access: SharedAccess, hardware: str, columns: int = COLUMNS, wide: bool = False) -> list[Line]:
    """The picture as lines of styled segments, at most `columns` wide. `wide` draws a cell for each bank.

    `hardware` is the title's name for the machine.
    """
    a, geometry = access, access.geometry
    size = geometry.access_bytes(a.kind, a.width)
    what = f"{a.width} x 8 rows of {size} bytes" if a.kind.is_matrix else f"{a.width} bits per lane"
    used = [lane for phase in a.phases for lane in phase.lanes]
    active = sum(a.active_mask >> lane & 1 for lane in used)
    details = (
        f"{a.kind.value}, {what}, {active} of {len(used)} lanes active; "
        f"{geometry.banks} banks of {geometry.bank_width_bytes} bytes; {_busy(a)}"
    )
    lines = _paragraph("", f"{a.op} on {hardware}: {summary(a)}", EXCESS if a.excess_wavefronts else HEAD, columns)
    lines += [*_paragraph("", details[0].upper() + details[1:], PLAIN, columns), [Segment("", PLAIN)]]
    lines += [*_blocks(a, columns, wide), [Segment("", PLAIN)]]
    for phase in a.phases:
        if shared := _shared_words(phase):
            name = f"Shared words, phase {phase.index}: " if len(a.phases) > 1 else "Shared words: "
            lines += _paragraph(name, "; ".join(map(_unbroken, shared)), PLAIN, columns)
    for reason in explain(a)[1:]:
        lines += _paragraph("", reason, PLAIN, columns)
    if a.excess_wavefronts:
        lines += _paragraph("", "gpuemu search finds a layout of the tile without bank conflicts.", PLAIN, columns)
    return lines if lines[-1][0].text else lines[:-1]


def _unbroken(text: str) -> str:
    return text.replace(" ", "\xa0")


def _paragraph(head: str, text: str, style: str, columns: int) -> list[Line]:
    rows = wrap(_unbroken(head) + text, columns, subsequent_indent=" " * max(4, len(head)))
    return [[Segment(row.replace("\xa0", " "), style)] for row in rows]


def write(lines: Callable[[int], Iterable[Line]], width: int, stream: TextIO) -> None:
    """Write the lines that `lines` makes for a width: in color at a terminal's width, else without color at `width`."""
    if not stream.isatty():
        stream.write(plain(lines(width)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in lines(console.width):
        console.print(Text.assemble(*line), no_wrap=True, overflow="ignore", crop=False)


def plain(lines: Iterable[Line]) -> str:
    """The lines without color."""
    return "".join("".join(segment.text for segment in line).rstrip() + "\n" for line in lines)


def hardware_name(arch: str, overrides: Mapping[str, object]) -> str:
    """The name of an architecture with changed values, for a title."""
    changes = ", ".join(f"{name}={value}" for name, value in overrides.items())
    return shown(f"{arch} with {changes}" if changes else arch)


def as_json(access: SharedAccess, arch: str, overrides: Mapping[str, object]) -> dict[str, Any]:
    """Everything that the picture shows, and the addresses that it shows."""
    geometry = access.geometry
    return {
        "op": access.op,
        "arch": arch,
        "overrides": dict(overrides),
        "kind": access.kind.value,
        "banks": geometry.banks,
        "bank_width_bytes": geometry.bank_width_bytes,
        "lane_byte_addresses": list(access.lane_byte_addresses),
        "active_mask": f"{access.active_mask:#010x}",
        "merged": access.merged,
        "wavefronts": access.wavefronts,
        "ideal_wavefronts": access.ideal_wavefronts,
        "excess_wavefronts": access.excess_wavefronts,
        "data_stage_cycles": access.data_stage_cycles,
        "phases": [
            {
                "index": phase.index,
                "lanes": list(phase.lanes),
                "wavefronts": phase.wavefronts,
                "ideal_wavefronts": phase.ideal_wavefronts,
                "served": [[served._asdict() for served in wavefront] for wavefront in phase.served],
            }
            for phase in access.phases
        ],
        "explanation": explain(access),
    }
