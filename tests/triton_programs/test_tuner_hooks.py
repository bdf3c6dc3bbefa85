"""gpuemu's functions for Triton's `prune_configs_by` order an autotuner's configurations for a chip that is not there."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.arch.hardware import hardware
from gpuemu.base.errors import GpuemuError

triton = pytest.importorskip("triton", reason="the hooks are Triton's")
import triton.language as tl  # noqa: E402

from gpuemu.triton.tuned import Tuned  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")]
COUNT = 4096


def body(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def tuned(pruned: dict[str, Any]) -> Any:
    """A tuned kernel, after its first launch, and the configurations that it measured."""
    configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (32, 128, 4096) for warps in (1, 4)]
    kernel = triton.autotune(configs, key=["n"], prune_configs_by=pruned)(triton.jit(body))
    x, out = np.arange(COUNT, dtype=np.float32), np.zeros(COUNT, np.float32)
    with gpuemu.triton.device("sm_89", chip="RTX 4090"):
        kernel[lambda words: (triton.cdiv(COUNT, words["BLOCK"]),)](x, out, COUNT)
    np.testing.assert_array_equal(out, 2 * x)
    return kernel


def order(kernel: Any) -> list[str]:
    return [str(one) for one in sorted(kernel.configs_timings, key=lambda one: kernel.configs_timings[one][0])]


def test_a_program_measures_only_the_best_ones_of_a_chip() -> None:
    every = order(tuned({}))
    assert len(every) == 6
    kept = tuned({"early_config_prune": gpuemu.triton.early_config_prune("RTX 4090", top=2)})
    assert set(order(kept)) <= set(every[:3])
    assert len(order(kept)) == 2
    modeled = tuned({"perf_model": gpuemu.triton.perf_model("RTX 4090"), "top_k": 2})
    assert set(order(modeled)) == set(order(kept))


def test_another_chip_than_the_one_that_runs_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    rank = gpuemu.rank

    def noted(configurations: Any, arch: Any, **words: Any) -> Any:
        asked.append((arch.chip, len(configurations)))
        return rank(configurations, arch, **words)

    monkeypatch.setattr(gpuemu, "rank", noted)
    tuned({"early_config_prune": gpuemu.triton.early_config_prune("H100", jobs=1)})
    assert asked == [("H100", 6)]


def test_wrong_uses_have_messages() -> None:
    with pytest.raises(GpuemuError, match="unknown chip 'H1000'"):
        gpuemu.triton.perf_model("H1000")
    with pytest.raises(GpuemuError, match="expected at least 1"):
        gpuemu.triton.early_config_prune("H100", top=0)
    with pytest.raises(GpuemuError, match="no autotuner calls"):
        gpuemu.triton.perf_model("H100")(n=3)


def test_a_program_measures_the_set_that_a_probability_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    rank = gpuemu.rank

    def noted(*args: Any, **words: Any) -> Any:
        found.append(rank(*args, **words))
        return found[-1]

    monkeypatch.setattr(gpuemu, "rank", noted)
    kept = order(tuned({"early_config_prune": gpuemu.triton.early_config_prune("RTX 4090", probability=0.99)}))
    assert found[0].probability == 0.99
    assert len(kept) == len(found[0].measure()) > 1


def test_configurations_share_their_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    rank = gpuemu.rank
    monkeypatch.setattr(
        gpuemu, "rank", lambda every, *rest, **words: found.append(every) or rank(every, *rest, **words)
    )
    tuned({"early_config_prune": gpuemu.triton.early_config_prune("RTX 4090", jobs=1)})
    (every,) = found
    assert len(every) == 6
    for number in range(2):  # x and out
        assert len({id(one.args[number].array) for one in every}) == 1


def test_a_prepared_launch_keeps_the_arrays_that_only_the_program_knew() -> None:
    kernel, alive = triton.jit(body), []

    def launched(_: int) -> None:
        x, out = np.full(COUNT, 7, np.float32), np.zeros(COUNT, np.float32)
        alive.append(weakref.ref(x))
        kernel[(32,)](x, out, COUNT, BLOCK=128)

    prepared = Tuned(hardware("sm_89", ())[0], [{}], launched, {}).compile(0)
    gc.collect()
    assert alive[0]() is not None
    np.testing.assert_array_equal(prepared.args[0].array.view(np.float32), 7)
    del prepared
    gc.collect()
    assert alive[0]() is None
