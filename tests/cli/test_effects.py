"""Options that have no effect where they are given are refused by name, whatever the command, page and format."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.effects import RULES
from gpuemu.cli.main import COMMANDS, cli
from gpuemu.cli.pages import PAGES

ALWAYS = {
    "run": "asked_sure trace arch_name caches chip settings page form engine output also conditions baseline",
    "why": "trace arch_name caches chip settings by only form output",
    "check": "what tools arch_name form output",
    "trace": "kernel_file arch_name output",
    "rank": "files arch_names chips settings varied call kernel grid block shared args top probability form output jobs cluster again expected define include compiler_flags",
    "judge": "kernels against arch_names chips draws seed budget seconds memory jobs output define include compiler_flags",
    "exec": "arch_name chip settings pattern launches seconds checked asked folder form output command",
    "triton": "arch_name chip settings untimed checked listed page script words",
    "diff": "output a b everything form allowed",
    "compare": "trace arch_name caches chip settings profile wanted tolerances form output",
    "sweep": "traces varied archs settings form output plot no_store",
    "banks": "swizzle output op mask arch_name settings form",
    "layout": "output name tile vector arch_name settings form",
    "fragment": "output instruction pitch",
    "search": "tile accesses threads arch_name settings form output jobs",
    "calibrate": "name only dry_run folder",
    "arch show": "output name settings form",
    "arch check": "files",
    "arch diff": "output a b settings settings_b form",
}
"""Parameters that have an effect on every page, in every format."""
REFUSED_ELSEWHERE = {
    "run": "renew allowed",  # without --baseline
    "trace": "named with_source",  # with a trace, or for Accel-Sim
    "sweep": "study_file jobs cluster",  # --vary with --study, --jobs with --cluster
    "banks": "lanes addresses source",  # one of the two; --from of other than a copy
    "judge": "settings",  # without a leaderboard's problem
}
"""Those that their command refuses where it looks at more than the words."""
OF_MACHINE_CODE = (
    "kernel grid block cluster_size dynamic_shared args cta budget stack zero_shared save define include compiler_flags execute "
    "expect"
)
"""Options of a launch: a trace is refused with them, and check with those that it does not take."""


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for name in COMMANDS:
        command = getattr(importlib.import_module(f"gpuemu.cli.{name}"), name)
        if isinstance(command, click.Group):
            found += [(f"{name} {inner}", one) for inner, one in command.commands.items()]
        else:
            found.append((name, command))
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_of_every_option_it_is_known_where_it_has_an_effect(name: str, command: click.Command) -> None:
    names = {parameter.name for parameter in command.params}
    ruled = {rule.option for rule in RULES.get(name, ())}
    always, elsewhere = (set(table.get(name, "").split()) for table in (ALWAYS, REFUSED_ELSEWHERE))
    launch = set(OF_MACHINE_CODE.split()) if "kernel" in names else set()
    if name == "check":
        launch.add("tolerance")
    assert names <= ruled | always | elsewhere | launch
    assert not ruled & (always | elsewhere)


@pytest.mark.parametrize("option", [["--jobs", "2"], ["--launches", "launches.json"]])
def test_diff_takes_options_of_folders_for_folders_only(option: list[str]) -> None:
    with pytest.raises(GpuemuError, match="Leave it out, or compare two folders of cubins"):
        CliRunner().invoke(cli, ["diff", "v4_ldmatrix", "v5_swizzle", *option], catch_exceptions=False)


SUBJECTS = {
    "run": ["v2_shared_memory"],
    "layout": ["plain", "--tile", "16x16:f16"],
    "search": ["--tile", "32x32:f32", "--access", "copy-in:32", "--access", "column"],
    "arch diff": ["sm_80", "sm_90"],
}
GIVEN = {
    "by": ["--by", "line"], "hottest": ["--hottest"], "warps": ["--warp", "all"], "start": ["--from", "500"],
    "cycles": ["--cycles", "20"], "ranked": ["--why"], "binary": ["--binary"],
    "picture_alone": ["--picture"], "top": ["--top", "2"], "notes": ["--notes"],
}  # fmt: skip
PLACES = {
    "run": [["--page", page, "--format", form] for page, forms in PAGES.items() for form in forms],
    "layout": [["--format", form] for form in ("text", "json", "svg")],
    "search": [["--format", form] for form in ("text", "json", "svg")],
    "arch diff": [["--format", form] for form in ("text", "json")],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_on_every_page_an_option_changes_what_is_written_or_is_refused(name: str) -> None:
    def written(*words: str) -> str | None:
        """None where it is refused."""
        try:
            return CliRunner().invoke(cli, [*name.split(), *SUBJECTS[name], *words], catch_exceptions=False).stdout
        except GpuemuError as error:
            (problem,) = error.problems
            assert problem.file == words[-1 if words[-1].startswith("--") else -2]
            return None

    for place in PLACES[name]:
        plain = written(*place)
        for rule in RULES[name]:
            if rule.option not in GIVEN or (rule.option, place[-1]) == ("warps", "text"):
                continue  # the trace has one warp
            found = written(*place, *GIVEN[rule.option])
            page, form = place[1], place[-1]
            takes = rule.holds({"page": page, "form": form, "also": (), "picture_alone": None, "only": ()})
            assert (found is not None) == takes, (place, rule.option)
            if takes and rule.option not in ("warps", "start"):
                assert found != plain, (place, rule.option)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run v2_shared_memory --hottest", "--hottest: it has no effect here (--page summary)"),
        ("run v2_shared_memory --from 3 --page timeline --format perfetto", "--from: it has no effect here (--format perfetto)"),
        ("run v2_shared_memory --sources .", "--sources: it has no effect here (--page summary)"),
        ("run k.cu --tolerance 1", "--tolerance: it has no effect here (no --expect)"),
        ("why v2_shared_memory --only conflicts --jobs 2", "--jobs: it has no effect here (--only)"),
        ("why v2_shared_memory --only conflicts --all", "--all: it has no effect here (--only)"),
        ("why v2_shared_memory --only conflicts --pairs", "--pairs: it has no effect here (--only)"),
        ("check v2_shared_memory --all --format sarif", "--all: it has no effect here (--format sarif)"),
        ("compare v2_shared_memory x.csv --all --format json", "--all: it has no effect here (--format json)"),
        ("sweep v2_shared_memory --all --format csv", "--all: it has no effect here (--format csv)"),
        ("sweep v2_shared_memory --all -o x.json", "--all: it has no effect here (--format json)"),
        ("sweep v2_shared_memory --store x --no-store", "--store: it has no effect here (--no-store)"),
        ("layout plain --tile 16x16:f16 --binary --picture", "--binary: it has no effect here (--picture)"),
        ("fragment LDSM.4 --arch sm_80", "--arch: it has no effect here (no --pitch)"),
        ("diff a.json b.json --arch sm_80", "--arch: it has no effect here (a saved result for A)"),
        ("diff v2_shared_memory b.json --set-b shared_memory.banks=16", "--set-b: it has no effect here (a saved result for B)"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_refused_by_name(words: str, said: str) -> None:
    with pytest.raises(GpuemuError) as caught:
        CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    assert str(caught.value).startswith(said)


@pytest.mark.slow
def test_sources_have_an_effect_beside_a_file_that_shows_them(tmp_path: Path) -> None:
    words = ["run", "v2_shared_memory", "--sources", str(tmp_path), "--also", f"sarif={tmp_path / 'x.sarif'}"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    assert json.loads((tmp_path / "x.sarif").read_text())["version"] == "2.1.0"
