"""The profiler's counters of every kernel, where ncu is installed; needs what `measure` needs.

The profiler starts this module as a program of its own, for a few units at a time:

    ncu --metrics ... python -m validation.profiler FOLDER FIRST LAST
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from validation import records
from validation.build import Report
from validation.corpus import kernels_for

METRICS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
)
_UNITS_AT_A_TIME = 12


def find_ncu() -> str | None:
    """The profiler on the PATH or where the toolkit puts it."""
    usual = Path("/usr/local/cuda/bin/ncu")
    return shutil.which("ncu") or (str(usual) if usual.is_file() else None)


def profile(code: Path, output: Path, report: Report, seconds: float) -> None:
    """Write counters.csv; says so and returns where there is no profiler or it may not count."""
    ncu = find_ncu()
    if ncu is None:
        report("no profiler (ncu) here: counters are not recorded")
        return
    from validation.measure import read_units

    units = len(read_units(code)["units"])
    end = time.monotonic() + seconds
    counters: dict[str, dict[str, int]] = {}
    for first in range(0, units, _UNITS_AT_A_TIME):
        left = end - time.monotonic()
        if left <= 5:
            report(f"the profiler's time is used up: counters of units {first} to {units - 1} are not recorded")
            break
        last = min(first + _UNITS_AT_A_TIME, units)
        found, said = _profile_units(ncu, code, first, last, left)
        counters |= found
        if not found and said:
            report(f"the profiler counted nothing: {said}")
            break
        report(f"profiled {len(counters)} kernels, {last} of {units} units")
    if counters:
        records.write_counters(output / records.COUNTERS_FILE, counters, METRICS)


def _profile_units(
    ncu: str, code: Path, first: int, last: int, seconds: float
) -> tuple[dict[str, dict[str, int]], str]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        counting = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)]
        counting += ["--cache-control", "none", "--clock-control", "none", "--log-file", str(log)]
        command = [*counting, sys.executable, "-m", "validation.profiler", str(code), str(first), str(last)]
        root = Path(__file__).resolve().parent.parent
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=root)
        except subprocess.TimeoutExpired:
            return {}, "it ran past its time"
        text = log.read_text(errors="replace") if log.is_file() else ""
        said = (done.stdout + done.stderr + text)[-400:] if done.returncode else ""
    return parse(text), said


def parse(text: str) -> dict[str, dict[str, int]]:
    """Counters by kernel from the profiler's raw page."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    counters: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        name = (row.get("Kernel Name") or "").split("(")[0].strip()
        if not name or not (row.get("ID") or "").isdigit():
            continue  # the row of units
        counters[name] = {
            metric: int(float(value.replace(",", "")))
            for metric in METRICS
            if (value := row.get(metric) or "").replace(",", "").replace(".", "").isdigit()
        }
    return counters


def _run(code: Path, first: int, last: int) -> None:
    """Launch every lone-CTA kernel of some units once."""
    from validation.measure import Runner, cupy, read_units

    manifest = read_units(code)
    runner = Runner(cupy(), code)
    by_name = {kernel.name: kernel for kernel in kernels_for(int(manifest["arch"].removeprefix("sm_")))}
    for unit in range(first, last):
        for name in manifest["units"][unit]:
            kernel = by_name[name]
            if kernel.ctas == 1:
                runner.launch(runner.function(unit, kernel), kernel)


if __name__ == "__main__":
    _run(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]))
