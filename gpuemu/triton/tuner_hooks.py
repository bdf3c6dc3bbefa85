"""Functions for the hooks of tuners: they order a tuner's configurations without a GPU.

    prune = {"early_config_prune": gpuemu.triton.early_config_prune("H100")}
    @triton.autotune(configs, key=["n"], prune_configs_by=prune)
    prune = {"perf_model": gpuemu.triton.perf_model("H100"), "top_k": 3}  # or this one

    @helion.kernel(autotuner_fn=gpuemu.triton.helion_autotuner("H100", configs))
    torch._inductor.select_algorithm.add_preprocessing_fn(gpuemu.triton.inductor_choices("H100"))

gpuemu compiles the configurations for the given chip, with the launch's own arguments, and estimates them as
`gpuemu.rank` does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from gpuemu.arch import Architecture
from gpuemu.arch.hardware import hardware
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.triton.tuned import LeftOutError, Tuned
from gpuemu.triton.wheel import check_triton

Values = Mapping[str, Any]


def early_config_prune(
    chip: str | None = None, arch: Any = None, top: int = 3, jobs: int | None = None, probability: float | None = None
) -> Callable[..., list[Any]]:
    """A function that keeps the `top` configurations, the fastest first. The chip need not be there.

    `probability`: keep the set that `Ranking.measure` returns for it, instead of `top` configurations. `jobs`: the
    number of processes for the estimates, by default one per core. Raises GpuemuError for an unknown chip, and for a
    `top` below 1.
    """
    chosen_arch = _hardware("early_config_prune()", chip, arch, top)

    def prune(configs: Sequence[Any], named: Values, **words: Any) -> list[Any]:
        launch = _launch(_tuner(), configs, {**named, **words})
        values = [one.all_kwargs() for one in configs]
        return [configs[at] for at in best(launch, values, chosen_arch, top, jobs, probability)] or list(configs)

    return prune


def perf_model(chip: str | None = None, arch: Any = None) -> Callable[..., float]:
    """A function that returns the estimated milliseconds of one configuration, or infinity if it cannot run.

    Raises GpuemuError for an unknown chip.
    """
    chosen_arch = _hardware("perf_model()", chip, arch)

    def model(**words: Any) -> float:
        tuner = _tuner()
        chosen = next((one for one in tuner.configs if one.all_kwargs().items() <= words.items()), None)
        if chosen is None:
            raise GpuemuError.one("perf_model()", None, "", "no configuration has these values", "Use it in autotune")
        rest = {name: value for name, value in words.items() if name not in chosen.all_kwargs()}
        found = ranked(_launch(tuner, [chosen], rest), [chosen.all_kwargs()], chosen_arch, 1)
        return float(found.best.nanoseconds) / 1e6 if found is not None and found.rows else math.inf

    return model


def helion_autotuner(
    chip: str | None = None, configs: Sequence[Any] = (), arch: Any = None, top: int = 1, jobs: int | None = None,
    candidates: int = 32, probability: float | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function for `@helion.kernel(autotuner_fn=...)`.

    It estimates `configs`, or else `candidates` random ones of Helion's own search space, the default one among them.
    With `top=1`, the fastest becomes the kernel's configuration, and no GPU is needed. Otherwise, Helion measures the
    `top` fastest, or the set that `Ranking.measure` returns for `probability`. Raises GpuemuError for an unknown chip,
    and for a `top` below 1.
    """
    chosen_arch = _hardware("helion_autotuner()", chip, arch, top)

    class Chooser:
        def __init__(self, kernel: Any, args: Sequence[Any], **_: Any):
            self._kernel, self._args = kernel, args

        def autotune(self, *, skip_cache: bool = False) -> Any:
            """The configuration for these arguments."""
            every = list(configs) or _population(self._kernel, candidates)
            given = [_on_the_host(value) for value in self._args]

            def launched(number: int) -> None:
                self._kernel.compile_config(every[number], allow_print=False)(*given)

            kept = best(launched, [dict(one) for one in every], chosen_arch, top, jobs, probability)
            if not kept:
                right = "Give other configs, or more candidates"
                raise GpuemuError.one("helion_autotuner()", None, "", "no configuration runs", right)
            if len(kept) == 1:
                return every[kept[0]]
            from helion.autotuner import FiniteSearch

            return FiniteSearch(self._kernel, self._args, [every[at] for at in kept]).autotune(skip_cache=skip_cache)

    return Chooser


def inductor_choices(
    chip: str | None = None, arch: Any = None, top: int = 3, jobs: int | None = None, probability: float | None = None
) -> Callable[[list[Any]], list[Any]]:
    """A function for `torch._inductor.select_algorithm.add_preprocessing_fn`.

    It keeps the `top` Triton templates of a matrix product, or the set that `Ranking.measure` returns for
    `probability`. Choices that are no Triton templates stay. Inductor compiles for its own device, so the chip must
    have the same compute capability. Raises GpuemuError for an unknown chip, and for a `top` below 1.
    """
    chosen_arch = _hardware("inductor_choices()", chip, arch, top)

    def chosen(choices: list[Any]) -> list[Any]:
        templates = [one for one in choices if hasattr(getattr(one, "bmreq", None), "module_path")]

        def launched(number: int) -> None:
            request = templates[number].bmreq
            inputs = [meta.to_tensor() for meta in request.input_tensor_meta]
            try:
                request.make_run_fn(*inputs, out=request.output_tensor_meta.to_tensor())()
            finally:
                request.cleanup_run_fn()  # Inductor's own benchmark must not find what was loaded for this launch

        values = [{"choice": one.name} for one in templates]
        kept = {id(templates[at]) for at in best(launched, values, chosen_arch, top, jobs, probability)}
        out = {id(one) for one in templates} - kept if kept else set()
        return [one for one in choices if id(one) not in out]

    return chosen


def best(
    launched: Callable[[int], None], values: Sequence[Values], arch: Architecture, top: int, jobs: int | None = None,
    probability: float | None = None,
) -> list[int]:  # fmt: skip
    """The numbers of the fastest configurations: the first `top`, or the set to measure for `probability`.

    `launched` launches the kernel of a configuration. Configurations that cannot run are left out.
    """
    found = ranked(launched, values, arch, jobs, probability)
    if found is None:
        return []
    rows = found.on()[:top] if probability is None else found.measure()
    return [row.values["number"] for row in rows]


def _hardware(where: str, chip: str | None, arch: Any, top: int = 1) -> Architecture:
    check_triton()
    if top < 1:
        raise GpuemuError.one(where, None, "top", str(top), "expected at least 1")
    return hardware(arch, () if chip is None else chip)[0]


def ranked(
    launched: Callable[[int], None], values: Sequence[Values], arch: Architecture, jobs: int | None = None,
    probability: float | None = None,
) -> Any:  # fmt: skip
    """The ranking of configurations, which have their `number` as value; None if none can run."""
    import gpuemu

    tuned = Tuned(arch, [dict(one) for one in values], launched, {})
    buffers: dict[tuple[int, int], Any] = {}
    listed = []
    for number in range(len(values)):
        try:
            made = tuned.compile(number)
        except LeftOutError:
            continue
        sizes = made.grid, made.block, made.dynamic_shared_bytes
        args = [_with_shared_buffer(one, buffers) for one in made.args]
        words: dict[str, Any] = {"zero_shared": True, "values": {"number": number}}
        listed.append(gpuemu.Configuration(cast(Cubin, made.code), made.kernel, *sizes, args, **words))
    if not listed:
        return None
    if probability is None:
        return gpuemu.rank(listed, arch, jobs=jobs)
    return gpuemu.rank(listed, arch, jobs=jobs, probability=probability)


def _with_shared_buffer(argument: Any, buffers: dict[tuple[int, int], Any]) -> Any:
    """A pointer with one array per buffer for all configurations, so that workers get each buffer once."""
    if not isinstance(argument, Pointer):
        return argument
    key = argument.array.__array_interface__["data"][0], argument.array.nbytes
    return replace(argument, array=buffers.setdefault(key, argument.array))


def _launch(tuner: Any, configs: Sequence[Any], words: Values) -> Callable[[int], None]:
    """A function that launches the kernel of a Triton autotuner with a configuration."""
    given = {name: _on_the_host(value) for name, value in words.items()}

    def launched(number: int) -> None:
        one = configs[number]
        chosen = {**given, **one.all_kwargs()}
        if one.pre_hook is not None:
            one.pre_hook(chosen)
        tuner.fn.run(**chosen)

    return launched


def _population(kernel: Any, count: int) -> list[Any]:
    """The default configuration of a Helion kernel, and random ones of its search space."""
    import random

    space = kernel.config_spec.create_config_generation()
    state = random.getstate()
    random.seed(0)
    try:
        found = [kernel.config_spec.default_config(), *(space.random_config() for _ in range(count - 1))]
    finally:
        random.setstate(state)
    return list({str(one): one for one in found}.values())


def _on_the_host(value: Any) -> Any:
    """A tensor of a GPU, copied to the CPU; its contents may decide what the kernel does."""
    device = getattr(value, "device", None)
    return value.cpu() if getattr(device, "type", "cpu") != "cpu" and hasattr(value, "cpu") else value


def _tuner() -> Any:
    """The autotuner that calls: Triton passes no kernel to these functions."""
    from triton.runtime.autotuner import Autotuner

    frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Autotuner):
            return found
        frame = frame.f_back  # type: ignore[assignment]
    right = "Give it to @triton.autotune(..., prune_configs_by=...)"
    raise GpuemuError.one("prune_configs_by", None, "", "no autotuner calls this function", right)
