"""The page on accuracy and the suite's page say of the scores what the scores say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpuemu
from validation import launches, report, score
from validation.__main__ import COMMANDS, main
from validation.records import DATA, MEASUREMENTS_FILE, read_names
from validation.split import JUDGED_FAMILIES
from validation.suite import mean_error

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "validation" / "report" / "h200"
ACCURACY = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
DETAILS = (ROOT / "validation" / "accuracy.md").read_text(encoding="utf-8")


def plain(text: str) -> str:
    return " ".join(text.split())


def test_the_page_on_accuracy_has_the_headline_of_the_committed_scores() -> None:
    """That the committed scores are true `test_verify` tells."""
    headline = score.headline(score.read_scores(REPORT / report.SCORES_FILE))
    assert f"<!-- the headline of validation/report/h200/scores.csv --> {headline}." in plain(ACCURACY), (
        f"after `python -m validation report`, docs/accuracy.md should say: {headline}."
    )


def test_the_page_on_accuracy_has_the_headline_of_the_committed_launches() -> None:
    scored = launches.read_scores(REPORT / report.LAUNCH_SCORES_FILE)
    headline = launches.headline(scored)
    assert f"<!-- the headline of validation/report/h200/launches.csv --> {headline}." in plain(ACCURACY), (
        f"after `python -m validation report`, docs/accuracy.md should say: {headline}."
    )
    assert {state: len(group) > 100 for state, group in scored.items()} == {"warm": True, "flushed": True}


@pytest.mark.slow
def test_the_committed_launches_are_what_the_emulator_gives() -> None:
    """A dozen of them, replayed."""
    arch, folder = gpuemu.load_arch("sm_90"), DATA / "h200"
    for state, group in launches.read_scores(REPORT / report.LAUNCH_SCORES_FILE).items():
        again = launches.score(folder, arch, state, "held-out", "", 12, 1)
        assert {s.name: s for s in group}.items() >= {s.name: s for s in again}.items()
        assert again


def test_the_committed_scores_of_what_no_fit_has_seen_are_within_two_percent_and_five_in_each_family() -> None:
    held_out = [s for s in score.read_scores(REPORT / report.SCORES_FILE) if s.held_out]
    assert not [s.name for s in held_out if s.failure]
    assert {s.family for s in held_out} == JUDGED_FAMILIES
    assert mean_error(held_out) <= 0.02
    errors = {family: mean_error(s for s in held_out if s.family == family) for family in JUDGED_FAMILIES}
    assert {family: error for family, error in errors.items() if error > 0.05} == {}


def test_the_detailed_results_count_the_published_rows_as_their_page_does() -> None:
    page = (ROOT / "validation" / "published.md").read_text(encoding="utf-8")
    line = r"\d+ published entries, (\d+) compared in (\d+) rows \(\d+ ok, (\d+) fail, (\d+) gaps\), (\d+) not modelled"
    found = [[int(number) for number in row] for row in re.findall(line, page)]
    assert len(found) == 6
    compared, rows, fail, gaps, left_out = map(sum, zip(*found, strict=True))
    assert f"for each of {compared} published entries" in plain(DETAILS)
    assert f"{fail} of {rows} rows fail, {gaps} needs an unknown rule" in plain(DETAILS)
    assert f"{left_out} entries are not modeled" in plain(DETAILS)


def test_the_page_on_accuracy_has_the_errors_of_the_detailed_results() -> None:
    """Each error by kind of kernel is the mean of its table, or stands in the text of its section."""
    sections = {re.sub(r"[^a-z0-9]+", "-", s.split("\n")[0].lower()).strip("-"): s for s in DETAILS.split("\n## ")[1:]}
    rows = re.findall(r"^\| .* \| .* \| (\d+) \| ([\d.]+)% \| \[table\]\(.*#(.*)\) \|$", ACCURACY, re.MULTILINE)
    assert len(rows) == 6
    for count, error, anchor in rows:
        section = plain(sections[anchor.rstrip("-")])
        means = {f"{float(m):g}" for m in re.findall(r"([\d.]+) ?%", section)}
        signed = [abs(float(x)) for x in re.findall(r"^\|.*?([+-][\d.]+)%", sections[anchor], re.MULTILINE)]
        computed = f"{sum(signed) / len(signed):.1f}" if signed else ""
        assert f"{float(error):g}" in means or error == computed, anchor
        assert count in section or int(count) in (
            len(signed),
            sum(map(int, re.findall(r"\| (\d+) \| [\d.]+ % \|", section))),
        )


def test_the_committed_scores_are_of_every_measured_kernel() -> None:
    scored = [(s.name, s.family) for s in score.read_scores(REPORT / report.SCORES_FILE)]
    assert scored == read_names(DATA / "h200" / MEASUREMENTS_FILE)
    assert f"{len(scored):,} kernels that ran on an H200" in plain(ACCURACY)


def test_the_page_on_accuracy_shows_the_scatter_plot_and_the_command() -> None:
    assert "](../validation/report/h200/held_out.png)" in ACCURACY
    assert (REPORT / report.HEADLINE_FILE).read_bytes().startswith(b"\x89PNG")
    assert "python -m validation score --held-out" in ACCURACY


def test_links_of_the_suite_s_page_lead_somewhere() -> None:
    for page in (ROOT / "validation").glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_commands_of_the_suite_s_page_are_understood() -> None:
    page = (ROOT / "validation" / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"`python -m validation ([a-z_]+)", page)
    assert set(commands) == set(COMMANDS)
    for command in COMMANDS:
        with pytest.raises(SystemExit) as done:
            main([command, "--help"])
        assert done.value.code == 0
