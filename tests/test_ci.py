"""What `.ci/run` runs and when it fails, and whether it demands a browser: `.ci/chromium` with a PATH of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
BROWSER = "#!/bin/sh\necho Chromium 1\n"


def told(folder: Path, commands: dict[str, str], root: bool = True) -> tuple[str, str]:
    """What the script says where there are only these commands, for root or somebody else."""
    for name in ("env", "bash"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, text in ({"id": f"#!/bin/sh\necho {0 if root else 1000}\n"} | commands).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {"PATH": str(folder), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [str(folder / "bash"), str(ROOT / ".ci" / "chromium")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("name", ["chromium", "chromium-browser"])
def test_a_browser_that_runs_is_demanded(name: str, tmp_path: Path) -> None:
    word, reason = told(tmp_path, {name: BROWSER})
    assert word == "required"
    assert f"{tmp_path / name}; the tests that open the report in it must pass" in reason


def test_a_missing_browser_is_installed_and_demanded(tmp_path: Path) -> None:
    installs = f"#!/bin/sh\n[ $2 = update ] || {shutil.which('mv')} {tmp_path}/later {tmp_path}/chromium\n"
    word, reason = told(tmp_path, {"later": BROWSER, "apt-get": installs})
    assert (word, "apt-get install chromium" in reason) == ("required", True)


def test_where_there_is_none_to_be_had_the_tests_may_skip(tmp_path: Path) -> None:
    word, reason = told(tmp_path, {"apt-get": "#!/bin/sh\nexit 100\n"})
    assert word == ""
    assert "none to be installed" in reason


def test_a_browser_that_does_not_run_is_none_and_only_root_installs_one(tmp_path: Path) -> None:
    word, reason = told(tmp_path, {"chromium": "#!/bin/sh\nexit 1\n", "apt-get": "#!/bin/sh\nexit 0\n"}, root=False)
    assert (word, "apt-get" in reason) == ("", False)


TOOL = """#!/bin/sh
echo "$(basename "$0") $* [$GPUEMU_TEST_ARCHITECTURES]" >> "$LOG"
[ -z "$PYTHONDONTWRITEBYTECODE" ] || echo "no bytecode is kept" >> "$LOG"
[ "$PIP_COMPILE" = 0 ] || echo "pip compiles all that it installs" >> "$LOG"
case "$*" in *pytest*) [ "$GPUEMU_CHROMIUM" = required ] || echo "no browser is demanded" >> "$LOG";; esac
echo "this is $(basename "$0")"
case "$(basename "$0") $*" in *"$FAILS"*) exit 3;; esac
"""
README = """<!-- the test command -->
```sh
mkdir -p .venv/bin && cp tool .venv/bin/python && cp tool .venv/bin/ruff && cp tool .venv/bin/mypy
.venv/bin/python -m pytest -n 2 -m "not slow"
```
"""
FAST, SLOW = "python -m pytest -n 2 -m not slow", "python -m pytest -n 2 -m slow"
CHECKED = "python tests/engine/checked.py"
CHECKS = ["mypy --strict gpuemu validation tests/user_types.py", "ruff check .", "ruff format --check ."]


def ran(folder: Path, *words: str, fails: str = "nothing") -> tuple[int, list[str], str]:
    """The exit code of `.ci/run` in a checkout of its own, what it has run, sorted, and what it has said."""
    (folder / ".ci").mkdir(exist_ok=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "README.md").write_text(README)
    for name, text in (("tool", TOOL), (".ci/chromium", "#!/bin/sh\nsleep 0.1; echo required\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    log = folder.with_name("log")
    log.write_text("")
    environment = {**os.environ, "LOG": str(log), "FAILS": fails, "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("GPUEMU_TEST_ARCHITECTURES", "GPUEMU_CHROMIUM"):
        environment.pop(name, None)
    done = subprocess.run(
        [str(folder / ".ci" / "run"), *words], env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    return done.returncode, sorted(log.read_text().splitlines()), done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "checkout").mkdir()
    return tmp_path / "checkout"


def test_a_whole_run_has_both_lanes_for_all_architectures_and_the_checks(checkout: Path) -> None:
    code, commands, said = ran(checkout)
    assert (code, commands) == (0, sorted(f"{command} [all]" for command in (FAST, SLOW, CHECKED, *CHECKS)))
    assert said.count("this is mypy") == 1, "what runs beside the tests is shown"


def test_a_fast_run_leaves_out_the_slow_tests_and_most_architectures(checkout: Path) -> None:
    assert ran(checkout, "fast")[:2] == (0, sorted(f"{command} []" for command in (FAST, *CHECKS)))
    code, commands, said = ran(checkout, "quick")
    assert (code, commands, said) == (2, [], "usage: .ci/run [fast]\n")


@pytest.mark.parametrize("fails", ["not slow", "-m slow", "mypy", "ruff check", "ruff format", "checked.py"])
def test_each_command_can_fail_a_run(checkout: Path, fails: str) -> None:
    code, commands, said = ran(checkout, fails=fails)
    assert code == 1
    assert f"{SLOW} [all]" in commands or fails != "-m slow"
    assert ("this is mypy" in said) == (not fails.startswith("ruff"))


def test_a_pull_request_runs_the_fast_lane_with_public_actions() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/pull_request.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["fast"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run fast"]
    assert all(step["uses"].startswith("actions/") for step in steps if "uses" in step)


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_an_issue_form_asks_for_what_it_requires(form: Path) -> None:
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert read["name"]
    assert read["description"]
    fields = {field["id"]: field for field in read["body"]}
    assert all(field["type"] in ("input", "textarea") and field["attributes"]["label"] for field in fields.values())
    assert any(field.get("validations", {}).get("required") for field in fields.values())


def test_commits_are_formatted_by_the_ruff_of_the_tests() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    pinned = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("ruff==")]
    assert [hook["additional_dependencies"] for hook in hooks] == [pinned] * 2


def test_the_guide_for_contributors_is_short_and_names_the_commands() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    for command in ('-m "not slow"', ".ci/run fast", "GPUEMU_TEST_ARCHITECTURES", "tools/mutate.py"):
        assert command in text
