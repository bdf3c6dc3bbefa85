"""The configurations over which a Triton program tunes a kernel: run it up to the launch, then compile each."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.triton.emulated import Device
from gpuemu.triton.launch import Launch
from gpuemu.triton.script import command_line, its_imports
from gpuemu.triton.wheel import check_triton

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuemu.sass.launch_config import LaunchConfig

_SEED = 0


class LeftOutError(Exception):
    """A configuration that Triton or the program leaves out; the text says why."""


class _Preparing(Device):
    """A driver that keeps the last launch instead of executing it."""

    keeps_buffers = True
    prepared: LaunchConfig | None = None

    def launch(self, config: LaunchConfig, registers: int) -> Launch:
        self.prepared = config
        return Launch.of(config, registers)


class _Reached(BaseException):
    """The launch has been reached. This is not an Exception, so that no program catches it."""

    def __init__(self, launcher: Any, args: tuple[Any, ...], words: dict[str, Any]):
        self.launcher, self.args, self.words = launcher, args, words


@dataclass
class Tuned:
    """A kernel, the launch of it, and the `configurations` to compile."""

    arch: Architecture
    configurations: list[dict[str, Any]]
    _compile: Callable[[int], None]
    _left_out: Mapping[int, str]

    def compile(self, number: int) -> LaunchConfig:
        """Compile one. Raises LeftOutError if Triton refuses it, or if the program itself does not try it."""
        from gpuemu.triton.driver import active

        if number in self._left_out:
            raise LeftOutError(self._left_out[number])
        made = _Preparing(self.arch, False, False, 1)
        with active(made):
            try:
                self._compile(number)
            except GpuemuError:
                raise
            except Exception as error:
                raise LeftOutError(_sentence(error)) from None
        prepared, made.prepared = made.prepared, None  # Triton keeps the device, which must not keep the tensors
        assert prepared is not None
        return prepared


def _sentence(error: Exception) -> str:
    """Triton's message in one line."""
    if type(error).__name__ == "OutOfResources":
        needs, limit, what = error.required, error.limit, error.name  # type: ignore[attr-defined]
        return f"needs {needs:,}{' bytes of' * (what == 'shared memory')} {what}; the chip has {limit:,}"
    told = _last_line(error)
    cause = error.__cause__
    while not told.strip("^") and cause is not None:  # Triton shows the line of the program, and chains the reason
        told, cause = _last_line(cause), cause.__cause__
    return f"{type(error).__name__}: {told}"


def _last_line(error: BaseException) -> str:
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")


def tuned(
    path: str, arch: Architecture, words: Sequence[str] = (), call: str | None = None, kernel: str | None = None,
    varied: Sequence[dict[str, Any]] = (),
) -> Tuned:  # fmt: skip
    """Run a program up to its first launch of a kernel with configurations, or of any kernel with `varied` ones.

    Then run `call`, with the program's names, up to such a launch of its own. Random numbers are seeded before. Raises
    GpuemuError if there is no such launch.
    """
    check_triton()
    from gpuemu.triton.driver import active

    if not Path(path).is_file():
        raise GpuemuError.one(path, None, "", "no such file", "Give a Python file")
    names: dict[str, Any] = {}
    with active(Device(arch, False, False, 1)), _stopping(kernel, bool(varied)), command_line(path, words):
        _seed()
        reached = _run(path, Path(path).read_text(encoding="utf-8"), names)
        if call is not None:
            _seed()
            reached = _run("--call", call, names)
    if reached is None:
        what = "launch of a kernel with @triton.autotune and several configurations"
        what = "launch" if varied else what
        named = f" named {kernel}" * (kernel is not None)
        right = "Give configurations with --vary NAME=V,V,..., or a launch with --call CODE"
        raise GpuemuError.one(path if call is None else "--call", None, "", f"there is no {what}{named}", right)
    return _spanned(reached, arch, list(varied)) if varied else _listed(reached, arch)


def _seed() -> None:
    import random

    import numpy as np

    random.seed(_SEED)
    np.random.seed(_SEED)  # the names that programs use
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)


def _run(path: str, text: str, names: dict[str, Any]) -> _Reached | None:
    """Run Python in a module of these names, up to the launch."""
    module = ModuleType("__main__")
    module.__dict__.update(names, __file__=path)
    names.update(module.__dict__)
    if not Path(path).is_file():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    module.__dict__.update(names)
    try:
        with its_imports(path):
            exec(compile(text, path, "exec"), module.__dict__)
    except _Reached as reached:
        return reached
    finally:
        names.update(module.__dict__)
        sys.modules["__main__"] = before
    return None


@contextmanager
def _stopping(kernel: str | None, any_launch: bool) -> Iterator[None]:
    """A context in which the first launch of the wanted kernel raises _Reached."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    kinds = (Autotuner, Heuristics, JITFunction)
    before = {kind: kind.run for kind in kinds}

    def stopping(kind: Any) -> Any:
        def run(self: Any, *args: Any, **words: Any) -> Any:
            several = kind is Autotuner and len(self.configs) > 1
            if (any_launch or several) and not words.get("warmup") and kernel in (None, _name(self)):
                raise _Reached(self, args, words)
            return before[kind](self, *args, **words)

        return run

    for kind in kinds:
        kind.run = stopping(kind)
    try:
        yield
    finally:
        for kind, run in before.items():
            kind.run = run


def _name(launcher: Any) -> str:
    while hasattr(launcher, "fn"):
        launcher = launcher.fn
    return str(launcher.__name__)


def _listed(reached: _Reached, arch: Architecture) -> Tuned:
    """The configurations of an autotuner."""
    tuner, args, words = reached.launcher, reached.args, reached.words
    given = dict(zip(tuner.arg_names, args, strict=False))
    kept = tuner.configs
    if tuner.early_config_prune is not None and not _of_gpuemu(tuner.early_config_prune):
        tuner.nargs = given
        kept = tuner.early_config_prune(list(tuner.configs), given, **words)
    left_out = {
        number: "left out by the program's own early_config_prune"
        for number, one in enumerate(tuner.configs)
        if not any(one is other for other in kept)
    }

    def compiled(number: int) -> None:
        one = tuner.configs[number]
        chosen = one.all_kwargs()
        if one.pre_hook is not None:
            one.pre_hook({**given, **words, **chosen})
        tuner.fn.run(*args, **words, **chosen)

    return Tuned(arch, [one.all_kwargs() for one in tuner.configs], compiled, left_out)


def _of_gpuemu(prune: Any) -> bool:
    """Whether a program prunes by gpuemu's estimates. Ranking finds this order itself, for each chip."""
    return str(getattr(prune, "__module__", "")).startswith("gpuemu.")


def _spanned(reached: _Reached, arch: Architecture, varied: list[dict[str, Any]]) -> Tuned:
    """A launch with other values of its arguments and options, after the hook of the program's first configuration."""
    from triton.runtime.autotuner import Autotuner

    launcher, hooks = reached.launcher, []
    if isinstance(launcher, Autotuner):
        hooks = [one.pre_hook for one in launcher.configs[:1] if one.pre_hook is not None]
        launcher = launcher.fn
    bound = dict(zip(reached.launcher.arg_names, reached.args, strict=False))

    def compiled(number: int) -> None:
        given = {**bound, **reached.words, **varied[number]}
        for hook in hooks:
            hook(given)
        launcher.run(**given)

    return Tuned(arch, varied, compiled, {})
