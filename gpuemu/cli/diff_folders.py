"""`gpuemu diff` of two folders of cubins: a row for each kernel that changed, and verdicts for CI."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.arch import Architecture, as_architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Table, number, words
from gpuemu.cli.pages import columns_of
from gpuemu.cli.progress import ProgressBar
from gpuemu.studies.regressions import (
    ADDED,
    CODE,
    EQUAL,
    REFUSED,
    REMOVED,
    TIMED,
    Compared,
    LaunchOf,
    compare_folders,
    worst_first,
)  # fmt: skip
from gpuemu.views.baseline import MORE_IS_BETTER, Allowed
from gpuemu.views.diff_text import WIDTH

LAUNCHES = "launches.json"
_NOTES = {
    ADDED: "only in B", REMOVED: "only in A", REFUSED: "cannot run",
}  # fmt: skip
_SHOWN = ("cycles", "registers", "spilled_bytes", "code_instructions")


def diff_folders(
    folders: tuple[str, str], arch_name: str | None, settings: Sequence[str], launches: str | None, jobs: int | None,
    form: str, everything: bool, output: str | None, rooms: Mapping[str, Allowed],
) -> tuple[str, list[str]]:  # fmt: skip
    """The report on two folders, and a sentence for each kernel that is worse than allowed. Raises GpuemuError."""
    compared = _compared(folders, arch_name, settings, launches, jobs)
    failed = failures(compared, rooms)
    if form == "json":
        return _as_json(folders, compared, failed), failed
    if form == "github":
        verdict = f"{len(failed):,} failed" if failed else "all hold" if rooms else "compared"
        return _as_markdown(f"{folders[0]} → {folders[1]}: {verdict}", compared, everything), failed
    return _as_text(compared, everything, output), failed


def _compared(
    folders: tuple[str, str], arch_name: str | None, settings: Sequence[str], launches: str | None, jobs: int | None
) -> list[Compared]:
    arch: Architecture | None = None
    if arch_name is not None:
        arch = as_architecture(arch_name, where="--arch").with_overrides(_overrides(settings), where="--set")
    elif settings:
        raise GpuemuError.one("--set", None, "", "there is no --arch to change", "Give --arch, too")
    beside = [str(Path(folder, LAUNCHES)) for folder in reversed(folders)]
    given = next((one for one in (launches, *beside) if one and Path(one).is_file()), None)
    if launches is not None and given != launches:
        raise GpuemuError.one(launches, None, "", "no such file", "Give a JSON list of launches")
    with ProgressBar("comparing", runs=1) as bar:
        return compare_folders(*folders, arch, _launches(given) if given else (), jobs, bar.count_runs)


def _overrides(settings: Sequence[str]) -> dict[str, Any]:
    from gpuemu.cli.loading import parse_settings

    return parse_settings(tuple(settings))[0]


def _launches(file: str) -> list[LaunchOf]:
    """The launches of a JSON list, whose fields are those of the configurations of `gpuemu rank`."""
    from gpuemu.cli.kernel_arguments import parse_arguments

    try:
        listed = json.loads(Path(file).read_bytes())
        args = [parse_arguments(map(str, one.get("args", ()))) for one in listed]
        return [
            LaunchOf(one.get("path", "*"), one.get("kernel"), {**one, "args": given})
            for one, given in zip(listed, args, strict=True)
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise GpuemuError.one(file, None, "", f"no list of launches ({error})", "Give a JSON list of objects") from None


def failures(compared: Sequence[Compared], rooms: Mapping[str, Allowed]) -> list[str]:
    """A sentence for each kernel that is worse than allowed. Raises GpuemuError for an unknown figure."""
    known = {name for one in compared for name in (*one.a, *one.b)}
    for name in rooms:
        if known and name not in known:
            right = f"expected one of {', '.join(_SHOWN)}, or another figure of gpuemu run"
            raise GpuemuError.one("--allow", None, "", f"'{name}'", right)
    found = []
    for one in worst_first(compared):
        if rooms and one.kind in (REFUSED, REMOVED):
            found.append(f"{title(one)}: {one.note or _NOTES[one.kind]}")
        for name, room in rooms.items():
            before, after = one.a.get(name), one.b.get(name)
            if before is None or after is None:
                continue
            sign = -1 if name in MORE_IS_BETTER else 1
            if sign * after > sign * room.beyond(before, name in MORE_IS_BETTER):
                found.append(f"{title(one)}: {name} {before:,} to {after:,}{f', {one.cause}' * bool(one.cause)}")
    return found


def title(one: Compared) -> str:
    """A kernel with its file."""
    return f"{one.file}: {one.kernel}" if one.kernel else one.file


def summary(compared: Sequence[Compared]) -> str:
    """The counts in a sentence."""
    counts = Counter(one.kind for one in compared)
    timed = [one.change for one in compared if one.kind == TIMED and one.change is not None]
    parts = [
        (sum(one > 0 for one in timed), "slower"), (sum(one < 0 for one in timed), "faster"),
        (sum(one == 0 for one in timed), "of equal cycles"), (counts[EQUAL], "with equal code"),
        (counts[CODE], "compared by code"), (counts[ADDED], "only in B"), (counts[REMOVED], "only in A"),
        (counts[REFUSED], "that cannot run"),
    ]  # fmt: skip
    told = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"{len(compared):,} kernel{'s' * (len(compared) != 1)}: {told or 'none'}"


def _table(compared: Sequence[Compared], everything: bool) -> Table:
    rows = []
    for one in worst_first(compared):
        if not everything and (one.kind == EQUAL or (one.kind == TIMED and not one.change)):
            continue
        change = "" if one.change is None else f"{one.change:+.1%}"
        told = one.cause or one.note or _NOTES.get(one.kind, "equal code" if one.kind == EQUAL else "")
        if one.kind == CODE:
            told = "; ".join(filter(None, (one.cause, f"compared by the code ({one.note})")))
        rows.append((one.kernel, one.file, one.a.get("cycles"), one.b.get("cycles"), change, told))
    heads = [words("Kernel"), words("File"), number("Cycles A"), number("Cycles B"), words("Change"), words("Cause")]
    return Table(heads, rows)


def _as_text(compared: Sequence[Compared], everything: bool, output: str | None) -> str:
    """The report for a terminal."""
    table = _table(compared, everything)
    lines = [line for _, line in table.lines(columns_of(WIDTH, output is not None))] if table.rows else []
    return "\n".join([summary(compared), *([""] if lines else []), *lines]) + "\n"


def _as_markdown(title: str, compared: Sequence[Compared], everything: bool) -> str:
    """The report for a CI summary."""
    table = _table(compared, everything)
    return "\n\n".join([f"### {title}", summary(compared), *([table.markdown()] if table.rows else [])]) + "\n"


def _as_json(titles: tuple[str, str], compared: Sequence[Compared], failed: Sequence[str]) -> str:
    """All comparisons with their figures."""
    kernels = [
        {
            "file": one.file, "kernel": one.kernel, "kind": one.kind, "change": one.change, "cause": one.cause,
            "note": one.note, "a": one.a, "b": one.b,
        }
        for one in worst_first(compared)
    ]  # fmt: skip
    told = {"gpuemu_diff_folders": 1, "a": titles[0], "b": titles[1], "failed": list(failed), "kernels": kernels}
    return json.dumps(told, indent=2) + "\n"
