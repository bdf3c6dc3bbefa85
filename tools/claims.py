"""Writes validation/claims.md: what has been claimed about the example kernels, what a run says, and a verdict.

    python tools/claims.py            writes the page
    python tools/claims.py --check    exits with 1 if the page is not up to date

The claims are in tools/claims_*.py, a function each: it runs what is needed, states what was found, and judges it by
conditions and thresholds in code. Nothing of evidence or verdict is typed.
"""

from __future__ import annotations

from collections import Counter

import claims_kernels
import claims_layouts
import claims_times
from claim import CLAIMS, NO_CHANGE, SAME_RATIO, VERDICTS, loaded, ran
from measured import measured, table, write_page

from gpuemu.base import resources
from gpuemu.isa.opcodes import Row
from gpuemu.trace.files import locate

SECTIONS = {
    "A": "One warp, C = A B, 16x16x16 in half precision, five versions",
    "B": "The swizzle of rows against columns",
    "C": "Padding the tile of a 128x256x32 half-precision product",
    "D": "Virtual threads, v(t) = (t mod (W/n)) n + t div (W/n)",
    "E": "Tiled product of floats, 16x16 blocks, width 4096",
}
CHECKED = (claims_kernels, claims_layouts, claims_times)
"""The modules whose functions register claims."""


def kernels() -> list[str]:
    """A table with every shipped kernel: wavefronts with conflicts in brackets, and cycles."""
    hardware = measured()["example_kernels"]
    rows = []
    for name in resources.names("traces"):
        if "/" in name or loaded(locate(name)[0]).arch != "sm_89":  # those of Hopper's units run nowhere else
            continue
        result = ran(name)
        row = [name, result.trace.about]
        for kinds in ((Row.LOAD, Row.LOAD_MATRIX), (Row.STORE,)):
            counts = [result.shared_memory[kind] for kind in kinds]
            row.append(f"{sum(c.wavefronts for c in counts)} ({sum(c.bank_conflicts for c in counts)})")
        there = hardware.get(name)
        row.append("{loads} ({load_conflicts}), {stores} ({store_conflicts})".format(**there) if there else "-")
        rows.append([*row, *(str(ran(name, arch).cycles) for arch in ("sm_80", "sm_89", "sm_90"))])
    return table(["kernel", "", "loads", "stores", "loads and stores, H200", "sm_80", "sm_89", "sm_90"], rows)


def page() -> str:
    """validation/claims.md."""
    claims = sorted(CLAIMS, key=lambda claim: (claim.number[0], int(claim.number[1:])))
    findings = {claim.number: claim.check() for claim in claims}
    verdicts = Counter(f.verdict for f in findings.values())
    lines = [
        "# What has been claimed about the example kernels",
        "",
        "<!-- Written by python tools/claims.py; a test compares. -->",
        "",
        "The kernels are in `traces/src/`, their traces in `traces/`. A claim is judged by what gpuemu counts or",
        "times, on sm_89 unless it says otherwise, and by an H200's measurements (`tools/h200/`) where there are some.",
        "Counts of wavefronts and conflicts are exact. Cycles are modelled: ratios count as equal",
        f"within {SAME_RATIO:.0%}, and as no change within {NO_CHANGE:.0%} of 1.",
        "",
        *table(["verdict", "claims"], [[verdict, str(verdicts[verdict])] for verdict in VERDICTS]),
    ]
    for letter, title in SECTIONS.items():
        lines += ["", f"## {letter}. {title}", ""]
        found = [(c, findings[c.number]) for c in claims if c.number[0] == letter]
        rows = [[c.number, c.text, f.emulator, f.hardware or "-", f"**{f.verdict}**"] for c, f in found]
        lines += table(["", "claim", "gpuemu", "H200", "verdict"], rows)
        commands = dict.fromkeys(command for c, _ in found for command in c.commands)
        if commands:
            lines += ["", "The runs behind these:", "", "```sh", *commands, "```"]
    lines += [
        "",
        "## The kernels",
        "",
        "Wavefronts of shared memory, conflicts in brackets, on sm_89; and cycles of one SM, as modelled",
        "(`gpuemu run KERNEL --arch sm_80`, ...).",
        "",
        *kernels(),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page("claims.md", page, __doc__)
