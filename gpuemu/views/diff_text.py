"""Two results side by side, as `gpuemu diff v4_ldmatrix v5_swizzle --arch sm_89` prints them

    A  v4_ldmatrix on sm_89
    B  v5_swizzle on sm_89

                                                                                 A           B       B - A    B / A
    cycles                                                                     862         835         -27    0.969
    warp_instructions                                                           50          54          +4    1.080
    excess_wavefronts                                                           12           0         -12    0.000

Only numbers that differ are shown, unless all are asked for; the cycles always are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def lines(
    title_a: str, title_b: str, a: Mapping[str, int], b: Mapping[str, int], everything: bool
) -> Iterator[tuple[bool, str]]:
    """The lines, each with whether it is a heading. `a` and `b` are metrics by name."""
    yield False, f"A  {title_a}"
    yield False, f"B  {title_b}"
    yield False, ""
    names = list(dict.fromkeys([*a, *b]))
    shown = [n for n in names if everything or n == "cycles" or a.get(n, 0) != b.get(n, 0)]
    width = max(38, *(len(n) for n in shown))
    yield True, f"{'':{width}}{'A':>12}{'B':>12}{'B - A':>12}{'B / A':>9}"
    for name in shown:
        left, right = a.get(name, 0), b.get(name, 0)
        ratio = f"{right / left:9.3f}" if left else f"{'':9}"
        yield False, f"{name:{width}}{left:12}{right:12}{right - left:+12}{ratio}".rstrip()
    if len(shown) == 1 and a == b:
        yield False, "All numbers are equal."
