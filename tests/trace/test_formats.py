"""A form of trace files registers itself, and everything that takes a trace takes its files."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.studies.sweeps.sources import of_file
from gpuemu.trace import files
from gpuemu.trace.formats import Format

TOY = Format(
    "a toy's trace", (".toy",), (".toys",),
    lambda path, label, kernel: replace(gpuemu.load_trace("v2_shared_memory"), name=kernel or path.read_text()),
    lambda trace, path: [f"{Path(path).write_text(trace.name)} letters are all that is left of it"],
)  # fmt: skip


@pytest.fixture
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FORMATS", [*files.FORMATS, TOY])


@pytest.mark.usefixtures("_toy")
def test_a_form_that_is_registered_is_read_and_written(tmp_path: Path) -> None:
    written = tmp_path / "k.toy"
    done = CliRunner().invoke(cli, ["trace", "v2_shared_memory", "-o", str(written)])
    assert (done.exit_code, "letters are all that is left of it" in done.stderr) == (0, True)
    assert gpuemu.load_trace(written).name == gpuemu.load_trace("v2_shared_memory").name
    assert of_file(written, "k.toy", "k").instructions > 0
    assert gpuemu.load_trace(written.replace(tmp_path / "k.toys"), kernel="second").name == "second"


@pytest.mark.usefixtures("_toy")
def test_what_such_a_form_has_no_room_for_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "k.toy").write_text("k")
    with pytest.raises(gpuemu.GpuemuError, match="A toy's trace has no numbers to change"):
        gpuemu.load_trace(tmp_path / "k.toy", layout={"pitch": 33})
