"""A strict checker of .traceg text, written from the description of the form and apart from the reader.

It takes what the description allows and nothing more: each line by its own rule, in the order of the description.
"""

from __future__ import annotations

import re

HEADER = (
    ("kernel name", r"\S(.*\S)?"),
    ("kernel id", r"\d+"),
    ("grid dim", r"\(\d+,\d+,\d+\)"),
    ("block dim", r"\(\d+,\d+,\d+\)"),
    ("shmem", r"\d+"),
    ("nregs", r"\d+"),
    ("binary version", r"70|75|80|86|89|90"),
    ("cuda stream id", r"\d+"),
    ("shmem base_addr", r"0x[0-9a-f]{16}"),
    ("local mem base_addr", r"0x[0-9a-f]{16}"),
    ("nvbit version", r"\S+"),
    ("accelsim tracer version", r"4|5"),
    ("enable lineinfo", r"0|1"),
)


def check(text: str) -> dict[str, int]:
    """Assert that a text is a kernel file; counts of its CTAs, warps, instructions and of each mode of addresses."""
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    at = 0
    values = {}
    for key, form in HEADER:
        match = re.fullmatch(rf"-{key} = ({form})", lines[at])
        assert match, f"line {at + 1}: {lines[at]!r} for -{key}"
        values[key] = match[1]
        at += 1
    body = [(n, line) for n, line in enumerate(lines[at:], at + 1) if line]
    # The first # line ends the header, and a reader may skip it: a CTA does not begin there.
    assert body[0][1].startswith("#")
    assert body[0][1] != "#BEGIN_TB"
    counts = dict.fromkeys(("ctas", "warps", "instructions", "mode 0", "mode 1", "mode 2"), 0)
    x, y, z = map(int, values["block dim"].strip("()").split(","))
    rest = iter(body[1:])
    for number, line in rest:
        assert line == "#BEGIN_TB", f"line {number}"
        counts["ctas"] += 1
        _, line = next(rest)
        place = re.fullmatch(r"thread block = (\d+),(\d+),(\d+)", line)
        assert place, line
        grid = values["grid dim"].strip("()").split(",")
        assert all(int(a) < int(b) for a, b in zip(place.groups(), grid, strict=True))
        warps = []
        for number, line in rest:
            if line == "#END_TB":
                break
            warp = re.fullmatch(r"warp = (\d+)", line)
            assert warp, f"line {number}: {line!r}"
            warps.append(int(warp[1]))
            _, line = next(rest)
            length = re.fullmatch(r"insts = (\d+)", line)
            assert length, line
            for _ in range(int(length[1])):
                number, line = next(rest)
                mode = instruction(number, line, values["enable lineinfo"] == "1", x * y * z - 32 * int(warp[1]))
                counts["instructions"] += 1
                if mode is not None:
                    counts[f"mode {mode}"] += 1
        else:
            raise AssertionError("no #END_TB")
        counts["warps"] += len(warps)
        assert sorted(warps) == list(range(-(-x * y * z // 32)))
    return counts


def instruction(number: int, line: str, has_line: bool, threads: int) -> int | None:
    """Assert that a line is an instruction; its mode of addresses, None where it accesses no memory."""
    where = f"line {number}: {line[:100]!r}"
    words = iter(line.split(" "))
    if has_line:
        assert re.fullmatch(r"\d+", next(words)), where
    assert re.fullmatch(r"[0-9a-f]{4,8}", next(words)), where
    word = next(words)
    assert re.fullmatch(r"[0-9a-f]{8}", word), where
    mask = int(word, 16)
    assert mask >> threads == 0 if threads < 32 else True, where
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    destinations = int(next(words))
    assert destinations in (0, 1), where
    for _ in range(destinations):
        register(next(words), where)
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*(\.\w+)*", next(words)), where
    sources = int(next(words))
    assert 0 <= sources <= 5, where
    for _ in range(sources):
        register(next(words), where)
    width, mode = int(next(words)), None
    assert width in (0, 1, 2, 4, 8, 16), where
    if width:
        mode = int(next(words))
        first = [next(words)] if mode else []
        assert mode in (0, 1, 2), where
        for word in [*first, *(next(words) for _ in (lanes if mode == 0 else ()))]:
            assert re.fullmatch(r"0x[0-9a-f]{16}", word), where
        for word in [next(words) for _ in range((0, 1, len(lanes) - 1)[mode])]:
            assert re.fullmatch(r"0|-?[1-9]\d*", word), where
        if mode == 1:
            assert len(lanes) > 1, where
            assert lanes == list(range(lanes[0], lanes[-1] + 1)), where
    assert re.fullmatch(r"0|-?[1-9]\d*", next(words)), where
    assert next(words, None) is None, where
    return mode


def register(word: str, where: str) -> None:
    match = re.fullmatch(r"R(\d+)", word)
    assert match, where
    assert int(match[1]) <= 255, where
