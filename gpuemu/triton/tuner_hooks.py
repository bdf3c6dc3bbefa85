"""Functions for Triton's `prune_configs_by`: they order an autotuner's configurations without a GPU.

    prune = {"early_config_prune": gpuemu.triton.early_config_prune("H100")}
    @triton.autotune(configs, key=["n"], prune_configs_by=prune)
    prune = {"perf_model": gpuemu.triton.perf_model("H100"), "top_k": 3}  # or this one

gpuemu compiles the configurations for the given chip, with the launch's own arguments, and estimates them as
`gpuemu.rank` does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from gpuemu.arch import Architecture
from gpuemu.arch.hardware import hardware
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.triton.tuned import LeftOutError, Tuned
from gpuemu.triton.wheel import check_triton


def early_config_prune(
    chip: str | None = None, arch: Any = None, top: int = 3, jobs: int | None = None
) -> Callable[..., list[Any]]:
    """A function that keeps the `top` configurations, the fastest first. The chip need not be there.

    `jobs`: the number of processes for the estimates, by default one per core. Raises GpuemuError for an unknown chip,
    and for a `top` below 1.
    """
    check_triton()
    chosen_arch = hardware(arch, () if chip is None else chip)[0]
    if top < 1:
        raise GpuemuError.one("early_config_prune()", None, "top", str(top), "expected at least 1")

    def prune(configs: Sequence[Any], named: Mapping[str, Any], **words: Any) -> list[Any]:
        times = _times(_tuner(), configs, {**named, **words}, chosen_arch, jobs)
        running = [number for number, one in enumerate(times) if one < math.inf]
        best = sorted(running, key=lambda number: (times[number], number))[:top]
        return [configs[number] for number in best] or list(configs)

    return prune


def perf_model(chip: str | None = None, arch: Any = None) -> Callable[..., float]:
    """A function that returns the estimated milliseconds of one configuration, or infinity if it cannot run.

    Raises GpuemuError for an unknown chip.
    """
    check_triton()
    chosen_arch = hardware(arch, () if chip is None else chip)[0]

    def model(**words: Any) -> float:
        tuner = _tuner()
        chosen = next((one for one in tuner.configs if one.all_kwargs().items() <= words.items()), None)
        if chosen is None:
            raise GpuemuError.one("perf_model()", None, "", "no configuration has these values", "Use it in autotune")
        rest = {name: value for name, value in words.items() if name not in chosen.all_kwargs()}
        (time,) = _times(tuner, [chosen], rest, chosen_arch, 1)
        return time

    return model


def _times(
    tuner: Any, configs: Sequence[Any], words: Mapping[str, Any], arch: Architecture, jobs: int | None
) -> list[float]:
    """The estimated milliseconds of each configuration, or infinity if it cannot run."""
    import gpuemu

    given = {name: _on_the_host(value) for name, value in words.items()}

    def launched(number: int) -> None:
        one = configs[number]
        chosen = {**given, **one.all_kwargs()}
        if one.pre_hook is not None:
            one.pre_hook(chosen)
        tuner.fn.run(**chosen)

    tuned = Tuned(arch, [one.all_kwargs() for one in configs], launched, {})
    listed = []
    for number in range(len(configs)):
        try:
            made = tuned.compile(number)
        except LeftOutError:
            continue
        sizes = made.grid, made.block, made.dynamic_shared_bytes
        words = {"zero_shared": True, "values": {"number": number}}
        listed.append(gpuemu.Configuration(cast(Cubin, made.code), made.kernel, *sizes, made.args, **words))
    found = [math.inf] * len(configs)
    for row in gpuemu.rank(listed, arch, jobs=jobs).rows if listed else ():
        found[row.values["number"]] = row.nanoseconds / 1e6
    return found


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
