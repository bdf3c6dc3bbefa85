"""One shared-memory access as a picture: which lanes each wavefront serves, bank by bank.

`gpuemu banks STS.64 --lanes '128*(lane%2) + 8*(lane//4)'` shows

STS.64 on sm_89
store, 64 bits a lane, 32 of 32 lanes active; 32 banks of 4 bytes

                  bank
phase  wavefront   0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    0          1   0+--  4+--  8+-- 12+--  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
               2   1+--  5+--  9+-- 13+--  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
    1          1   .  .  .  .  .  .  .  . 16+-- 20+-- 24+-- 28+--  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
               2   .  .  .  .  .  .  .  . 17+-- 21+-- 25+-- 29+--  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .

shared words, phase 0: 0+ = lanes 0, 2; 4+ = lanes 4, 6; 8+ = lanes 8, 10; 12+ = lanes 12, 14; 1+ = lanes 1, 3;
                       5+ = lanes 5, 7; 9+ = lanes 9, 11; 13+ = lanes 13, 15
shared words, phase 1: 16+ = lanes 16, 18; 20+ = lanes 20, 22; 24+ = lanes 24, 26; 28+ = lanes 28, 30;
                       17+ = lanes 17, 19; 21+ = lanes 21, 23; 25+ = lanes 25, 27; 29+ = lanes 29, 31
wavefronts 4, ideal 2, excess 2; the data stage is busy for 4 cycles
phase 0: banks 0-7 must serve 2 words each; bank 0 those of lanes 0+, 1+
phase 1: banks 8-15 must serve 2 words each; bank 8 those of lanes 16+, 17+

How to read it. A phase is a set of lanes that go through the banks together, here 16 lanes of 64 bits; a
row is a wavefront, what the banks serve together. In phase 0 the first wavefront writes banks 0 and 1
for lane 0 and another lane (`0+`, listed below the picture; the dashes are the rest of its 64 bits), banks
2 and 3 for lane 4 and another, and so on; banks 8 to 31 (`.`) idle. Lanes 1, 5, 9 and 13 want other words
of the same banks: the second wavefront, which on a terminal is red, because it is beyond the ideal.
A phase without active lanes has one row of dots and `-` for a wavefront. The last lines say what it
costs and which banks are to blame. More than 32 banks continue in a further block.

Which of its words a bank serves first is not known of the hardware; the picture takes the lowest lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple, TextIO

from gpuemu.banks.access import Phase, Served, SharedAccess
from gpuemu.banks.operations import AccessKind
from gpuemu.base.shown import shown
from gpuemu.isa.table import parse_opcode

BANKS_PER_BLOCK = (32, 16, 8)  # the most that fit
COLUMNS = 120  # unless a terminal says otherwise; 32 banks and the margin take 114
PARAGRAPH_COLUMNS = 112
MARGIN = "phase  wavefront  "
# Styles of the rich library; plain output ignores them.
PLAIN, HEAD, IDLE, SERVED, SHARED, EXCESS = "", "bold", "bright_black", "green", "cyan", "bold red"
MOST_RANGES = 6  # longer lists of banks are given as a number


class Segment(NamedTuple):
    """Text in one style; the style is a rich style, which plain output ignores."""

    text: str
    style: str


Line = list[Segment]


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
    """bank -> its word, and the lanes that share the word."""
    at: dict[int, tuple[int, tuple[int, ...]]] = {}
    for lane, word, bank in wavefront:
        at[bank] = (word, (*at[bank][1], lane) if bank in at else (lane,))
    return at


def _cells(wavefront: tuple[Served, ...], banks: range, width: int, excess: bool) -> Iterator[Segment]:
    """The cells of one wavefront; neighbouring words for the same lanes are drawn as one bar."""
    at = _by_bank(wavefront)
    for bank in banks:
        if bank not in at:
            yield Segment(".".rjust(width - 1) + " ", IDLE)
            continue
        word, lanes = at[bank]
        continues = bank > banks[0] and at.get(bank - 1) == (word - 1, lanes)
        goes_on = bank < banks[-1] and at.get(bank + 1) == (word + 1, lanes)
        number = "-" * (width - 1) if continues else str(lanes[0]).rjust(width - 1)
        mark = "+" if len(lanes) > 1 and not continues else "-" if goes_on else " "
        yield Segment(number + mark, EXCESS if excess else SHARED if len(lanes) > 1 else SERVED)


def _cell_columns(access: SharedAccess) -> int:
    return max(3, len(str(access.geometry.banks - 1)) + 1)


def _block(access: SharedAccess, banks: range) -> Iterator[Line]:
    width = _cell_columns(access)
    heads = "".join(f"{bank:>{width - 1}} " for bank in banks)
    yield [Segment(" " * len(MARGIN) + "bank", HEAD)]
    yield [Segment(MARGIN + heads, HEAD)]
    for phase in access.phases:
        for turn, wavefront in enumerate(phase.served or ((),)):
            number = str(phase.index) if turn == 0 else ""
            count = str(turn + 1) if phase.served else "-"
            margin = f"{number:>5}  {count:>9}  "
            yield [
                Segment(margin, PLAIN),
                *_cells(wavefront, banks, width, turn >= phase.ideal_wavefronts > 0),
            ]


def _shared_words(phase: Phase) -> list[str]:
    """What each "+" of a phase stands for."""
    sharers = dict.fromkeys(
        lanes for wavefront in phase.served for _, lanes in _by_bank(wavefront).values() if len(lanes) > 1
    )
    return [f"{_label(lanes)} = lanes {ranges_of(lanes)}" for lanes in sharers]


def explain(access: SharedAccess) -> list[str]:
    """Why the access costs what it does, one sentence a cause; the first gives the counts."""
    a = access
    cycles = f"{a.data_stage_cycles} cycle{'s' * (a.data_stage_cycles != 1)}"
    floor = ", one per phase" if a.data_stage_cycles > a.wavefronts else ""
    shares = a.geometry.shares_words(a.kind)
    copies = a.kind is AccessKind.COPY
    takes_turns = not shares or copies
    lines = [
        f"wavefronts {a.wavefronts}, ideal {a.ideal_wavefronts}, excess {a.excess_wavefronts}; "
        f"the data stage is busy for {cycles}{floor}"
    ]
    if a.merged:
        lanes = len(a.phases[0].lanes)
        lines.append(f"merged: lanes agree with their neighbours, so phases were joined into {lanes} lanes each")
    for phase in a.phases:
        if phase.wavefronts > phase.ideal_wavefronts:
            lines.append(f"phase {phase.index}: {_conflict(phase, 'requests' if takes_turns else 'words')}")
    if shares and takes_turns and a.excess_wavefronts:
        lines.append(_WAYS[parse_opcode(a.op.upper()).has("BYPASS")])
    if not shares:
        lines.append("atomics never share: each lane is a request of its own, also on a word that others ask for")
    return lines


_WAYS = {
    False: "lanes of a copy that read or write the same bank take turns, also on the same word",
    True: "a copy past L1 goes in pieces: sectors of one line to one line, all in the same order",
}
"""Why copies through L1, and past it, take more wavefronts."""


def _conflict(phase: Phase, requests: str) -> str:
    # A bank that still has work in the last wavefront is one of the busiest.
    busiest = sorted(bank for bank in _by_bank(phase.served[-1]) if all(bank in _by_bank(w) for w in phase.served))
    if not busiest:  # a copy, whose lanes wait for banks that they read as well
        parts = [ranges_of(sorted({one.lane for one in wavefront})) for wavefront in phase.served]
        return f"{phase.wavefronts} wavefronts instead of {phase.ideal_wavefronts}: lanes {'; '.join(parts)}"
    waiting = [_by_bank(wavefront)[busiest[0]][1] for wavefront in phase.served]
    shared = any(len(lanes) > 1 for lanes in waiting)
    firsts = ", ".join(map(_label, waiting)) if shared else ranges_of(lanes[0] for lanes in waiting)
    what = f"must serve {phase.wavefronts} {requests}"
    ideal = f" instead of {phase.ideal_wavefronts}" if phase.ideal_wavefronts > 1 else ""
    if len(busiest) == 1:
        return f"bank {busiest[0]} {what}{ideal}: lanes {firsts}"
    ranges = ranges_of(busiest)
    banks = f"banks {ranges}" if ranges.count(",") < MOST_RANGES else f"{len(busiest)} banks"
    return f"{banks} {what} each{ideal}; bank {busiest[0]} those of lanes {firsts}"


def picture(access: SharedAccess, hardware: str, columns: int = COLUMNS) -> list[Line]:
    """The picture as lines of styled segments.

    `hardware` is the title's name for the machine; `columns` decides how many banks stand side by side.
    """
    a, geometry = access, access.geometry
    size = geometry.access_bytes(a.kind, a.width)
    what = f"{a.width} x 8 rows of {size} bytes" if a.kind.is_matrix else f"{a.width} bits a lane"
    used = [lane for phase in a.phases for lane in phase.lanes]
    active = sum(a.active_mask >> lane & 1 for lane in used)
    details = (
        f"{a.kind.value}, {what}, {active} of {len(used)} lanes active; "
        f"{geometry.banks} banks of {geometry.bank_width_bytes} bytes"
    )
    lines = _paragraph("", f"{a.op} on {hardware}", HEAD) + _paragraph("", details, PLAIN)
    room = (columns - len(MARGIN)) // _cell_columns(access)
    abreast = next((n for n in BANKS_PER_BLOCK if n <= room), BANKS_PER_BLOCK[-1])
    for start in range(0, geometry.banks, abreast):
        banks = range(start, min(start + abreast, geometry.banks))
        lines += [[Segment("", PLAIN)], *_block(a, banks)]
    lines.append([Segment("", PLAIN)])
    for phase in a.phases:
        if shared := _shared_words(phase):
            lines += _paragraph(f"shared words, phase {phase.index}: ", "; ".join(map(_unbroken, shared)), PLAIN)
    counts, *reasons = explain(a)
    lines += _paragraph("", counts, EXCESS if a.excess_wavefronts else SERVED)
    for reason in reasons:
        lines += _paragraph("", reason, PLAIN)
    return lines


def _unbroken(text: str) -> str:
    return text.replace(" ", "\xa0")


def _paragraph(head: str, text: str, style: str) -> list[Line]:
    rows = wrap(_unbroken(head) + text, PARAGRAPH_COLUMNS, subsequent_indent=" " * max(4, len(head)))
    return [[Segment(row.replace("\xa0", " "), style)] for row in rows]


def write(access: SharedAccess, hardware: str, stream: TextIO) -> None:
    """Write the picture: in colour and as wide as fits on a terminal, else as `as_text` has it."""
    if not stream.isatty():
        stream.write(as_text(access, hardware))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in picture(access, hardware, console.width):
        console.print(Text.assemble(*line), no_wrap=True, overflow="ignore", crop=False)


def as_text(access: SharedAccess, hardware: str) -> str:
    """The picture without colour, at most 120 columns wide; longer names in the title wrap."""
    lines = ("".join(segment.text for segment in line).rstrip() for line in picture(access, hardware))
    return "\n".join(lines) + "\n"


def hardware_name(arch: str, overrides: Mapping[str, object]) -> str:
    """How a title names an architecture with some values changed."""
    changes = ", ".join(f"{name}={value}" for name, value in overrides.items())
    return shown(f"{arch} with {changes}" if changes else arch)


def as_json(access: SharedAccess, arch: str, overrides: Mapping[str, object]) -> dict[str, Any]:
    """Everything that the picture shows, and the addresses it was drawn from."""
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
