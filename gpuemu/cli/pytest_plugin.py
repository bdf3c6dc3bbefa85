"""A pytest fixture that runs a kernel on the emulated SM: no GPU, no profiler, equal figures on every machine.

    def test_tile(gpu_kernel):
        run = gpu_kernel("tile.cu", block=32, args=[np.arange(1024, dtype=np.float32), out])
        assert run.excess_wavefronts == 0
        assert run["global_load.sectors"] <= 128
        run.holds("tile.baseline.yaml", cycles="2%")

The figures are those of `gpuemu run --fail-on`. `pytest --renew-baselines` rewrites the files that `holds` names.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuemu.base.errors import GpuemuError

if TYPE_CHECKING:
    from gpuemu.views.result import Result


class GuessedTimeWarning(UserWarning):
    """A kernel has instructions without a timing rule. pytest's summary names them."""


class KernelRun:
    """A finished run: each figure by name, as an attribute or in brackets. `result` is the whole Result."""

    def __init__(self, result: Result, folder: Path, renew: bool):
        self.result = result
        self._folder, self._renew = folder, renew

    def __repr__(self) -> str:
        return repr(self.result)

    @cached_property
    def metrics(self) -> Mapping[str, int]:
        """Every figure by its name."""
        from gpuemu.views.metrics import metrics

        return metrics(self._data)

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        from gpuemu.views.json_result import as_data

        return as_data(self.result)

    def __getitem__(self, name: str) -> int:
        from gpuemu.views.metrics import figure_of

        return figure_of(self.metrics, name, "gpu_kernel")

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except GpuemuError as error:
            raise AttributeError(str(error)) from None

    def holds(self, file: str | os.PathLike[str], **allowed: str) -> None:
        """Fail if a figure is worse than the baseline allows; `allowed` as in cycles="2%".

        The baseline is a file beside the test. It is written if it is missing, and by --renew-baselines. Raises
        GpuemuError.
        """
        from gpuemu.cli.asking import Kept

        kept = Kept(str(self._folder / file), self._renew, [f"{name}={room}" for name, room in allowed.items()])
        verdicts = kept.verdicts(self._data, self.metrics)
        wrong = [verdict.sentence for verdict in verdicts if verdict.failed]
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options of the command line and of pytest's configuration file."""
    told = "Rewrite the baselines of gpu_kernel."
    parser.getgroup("gpuemu").addoption("--renew-baselines", action="store_true", help=told)
    parser.addini("gpuemu_arch", "The hardware of gpu_kernel, such as sm_90; by default what the code is for.")


@pytest.fixture
def gpu_kernel(request: pytest.FixtureRequest) -> Callable[..., KernelRun]:
    """Run a kernel of a .cu, .cubin or .ptx, or a trace. Paths are relative to the test's folder.

    gpu_kernel(file, kernel=None, grid=1, block=32, dynamic_shared_bytes=0, args=(), *, arch=None, settings={},
    options=(), **more): the arguments of gpuemu.trace_kernel. `settings` change values of the hardware, and of a
    trace's layout; `options` go to the compiler. Afterwards, arrays hold the values that the kernel stored.
    """
    folder = request.path.parent
    configured = request.config.getini("gpuemu_arch") or None
    renew = bool(request.config.getoption("--renew-baselines"))

    def run(
        file: str | os.PathLike[str],
        kernel: str | None = None,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] = 32,
        dynamic_shared_bytes: int = 0,
        args: Sequence[Any] = (),
        *,
        arch: Any = None,
        settings: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        **more: Any,
    ) -> KernelRun:
        import gpuemu
        from gpuemu.base.file_kinds import is_machine_code
        from gpuemu.trace.files import lists_kernels
        from gpuemu.views.notes import guesses

        path, changed = _beside(folder, file), dict(settings or {})
        hardware = arch if arch is not None else configured
        if isinstance(hardware, str | os.PathLike):
            hardware = gpuemu.load_arch(hardware)
        if is_machine_code(str(path)):
            given = (kernel, grid, block, dynamic_shared_bytes, args)
            trace = gpuemu.trace_kernel(path, *given, arch=hardware, options=options, **more)
        else:
            layout = {name[7:]: changed.pop(name) for name in [*changed] if name.startswith("layout.")}
            named = kernel if lists_kernels(str(path)) else None
            trace = gpuemu.load_trace(path, arch=hardware, layout=layout, kernel=named)
        hardware = hardware or gpuemu.load_arch(trace.arch)
        hardware = hardware.with_overrides(changed, where="gpu_kernel") if changed else hardware
        result = gpuemu.run(trace, hardware, clocks=True)
        for note in guesses(trace.guessed):
            warnings.warn(f"{trace.name}: {note}", GuessedTimeWarning, stacklevel=2)
        return KernelRun(result, folder, renew)

    return run


def _beside(folder: Path, file: str | os.PathLike[str]) -> Path | str:
    """A file beside the test. A name without a suffix is a shipped trace if there is no such file."""
    path = folder / file
    return path if path.suffix or path.exists() else os.fspath(file)
