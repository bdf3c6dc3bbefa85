"""`--fail-on`, `--baseline` and `--allow`: the conditions on a run or a comparison, and their verdicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.errors import GpuemuError

if TYPE_CHECKING:
    from gpuemu.views.result import Result
    from gpuemu.views.verdict import Verdict


_NO = ("", "0", "false")
"""Values of the variable CI that machines outside of CI set."""


class Kept:
    """A baseline: its file, and the differences that are allowed. Raises GpuemuError if it cannot be used."""

    def __init__(self, file: str, renew: bool, allowed: Iterable[str]):
        from gpuemu.views.baseline import parse_allowed, read_baseline

        self._file, self._renew = file, renew
        self._allowed = parse_allowed(allowed)
        self._baseline = read_baseline(file) if Path(file).exists() else None
        if self._baseline is None and os.environ.get("CI", "").lower() not in _NO and not renew:
            right = "Commit a baseline: in CI only --renew-baseline writes one"
            raise GpuemuError.one(file, None, "", "no such file", right)

    def verdicts(self, data: Mapping[str, Any], values: Mapping[str, int]) -> list[Verdict]:
        """The verdicts on its figures, from the data and the metrics of a run. A new or renewed file is written
        first.
        """
        from gpuemu.base.whole_files import write_whole
        from gpuemu.views.baseline import Baseline

        if self._baseline is not None and not self._renew:
            return self._baseline.allowing(self._allowed).verdicts(data, values)
        before = self._baseline
        kept = Baseline.of(self._file, data, values) if before is None else before.renewed(data, values)
        kept = kept.allowing(self._allowed, values)
        write_whole(Path(self._file), kept.text())
        click.echo(f"{self._file} is written: {len(kept.figures)} figures", err=True)
        return kept.verdicts(data, values)


class Asked:
    """The options of `gpuemu run`. Raises GpuemuError if an option or the baseline cannot be read."""

    def __init__(self, conditions: Sequence[str], file: str | None, renew: bool, allowed: Sequence[str]):
        from gpuemu.views.metrics import Condition

        self._conditions = [Condition(text) for text in conditions]
        for option, given in (("--allow", bool(allowed)), ("--renew-baseline", renew)):
            if given and file is None:
                raise GpuemuError.one(option, None, "", "there is no --baseline", "Add --baseline FILE")
        self._kept = None if file is None else Kept(file, renew, allowed)

    def verdicts(self, result: Result) -> list[Verdict]:
        """The verdict on each condition."""
        if not self._conditions and self._kept is None:
            return []
        from gpuemu.views.json_result import as_data
        from gpuemu.views.metrics import metrics

        data = as_data(result)
        values = metrics(data)
        found = [condition.verdict(values) for condition in self._conditions]
        return found + ([] if self._kept is None else self._kept.verdicts(data, values))


def failed_verdicts(verdicts: Sequence[Verdict]) -> bool:
    """Print the failed ones to stderr. Returns whether there are any."""
    failed = [verdict for verdict in verdicts if verdict.failed]
    for verdict in failed:
        click.echo(verdict.sentence, err=True)
    return bool(failed)
