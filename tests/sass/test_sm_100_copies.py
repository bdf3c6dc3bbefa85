"""Copies of sm_100: gathered and scattered rows, elements of 4 bits, mbarriers of pairs, and 256 bits for each thread."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.registers import written_and_read
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.memory import tensor_map
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.trace.model import Trace

SOURCE = Path(__file__).parent / "kernels" / "sm_100_copies.cu"
RNG = np.random.default_rng(3)


@cache
def cubin() -> Cubin:
    return load_cubin(SOURCE, "sm_100", "auto", ("-arch=sm_100a", "-std=c++17"))


def launch(kernel: str, *args: Any, ctas: int = 1) -> Trace:
    return gpuemu.trace_kernel(cubin(), kernel=kernel, grid=ctas, block=32, args=list(args), arch="sm_100")


def test_four_rows_are_gathered_and_scattered() -> None:
    array, target = RNG.random((50, 64), np.float32), np.zeros((50, 64), np.float32)
    rows, out = np.array([7, 49, 0, 7], np.int32), np.zeros((4, 32), np.float32)
    trace = launch("gather", *(gpuemu.TensorMap(one, (1, 32)) for one in (array, target)), rows, np.int32(16), out)
    np.testing.assert_array_equal(out, array[rows, 16:48])
    expected = np.zeros_like(target)
    expected[rows, 16:48] = array[rows, 16:48]
    np.testing.assert_array_equal(target, expected)
    assert gpuemu.run(trace, "sm_100").cycles > 0


def test_rows_outside_the_array_are_zero_and_are_not_stored() -> None:
    array, target = RNG.random((8, 64), np.float32), np.zeros((8, 64), np.float32)
    rows, out = np.array([-1, 3, 8, 100], np.int32), np.ones((4, 32), np.float32)
    launch("gather", *(gpuemu.TensorMap(one, (1, 32)) for one in (array, target)), rows, np.int32(0), out)
    np.testing.assert_array_equal(out, [np.zeros(32), array[3, :32], np.zeros(32), np.zeros(32)])
    assert np.flatnonzero(target.any(axis=1)).tolist() == [3]


@pytest.mark.parametrize(("kind", "padding"), [("b4x16", 0), ("b4x16_p64", 8)])
def test_elements_of_four_bits_can_have_padding_that_no_mbarrier_counts(kind: str, padding: int) -> None:
    array = RNG.integers(0, 1 << 63, (8, 16), dtype=np.uint64)
    out = np.zeros((8, 8, 8 + padding), np.uint8)
    tile = gpuemu.TensorMap(array, (8, 8), type=kind)
    launch("nibbles", tile, np.int32(8 * 64), np.int32(128), out, np.int32(out.size))
    np.testing.assert_array_equal(out[..., :8], array.view(np.uint8).reshape(8, 16, 8)[:, 8:])
    assert not out[..., 8:].any()
    layout = tensor_map.decode(tile.encode(1 << 32))
    assert layout is not None
    assert (layout.type, layout.shape, layout.box, layout.shared_bytes) == (kind, (16, 8), (8, 8), 8 + padding)
    with pytest.raises(GpuemuError, match="the first coordinate 120 of elements of 4 bits"):
        launch("nibbles", tile, np.int32(8 * 64), np.int32(120), out, np.int32(out.size))


def test_the_copies_of_a_pair_signal_the_mbarrier_of_its_first_cta() -> None:
    array, out = RNG.random((8, 32), np.float32), np.zeros((8, 32), np.float32)
    launch("pair", gpuemu.TensorMap(array, (4, 32)), out, ctas=2)
    np.testing.assert_array_equal(out, array)


def test_a_replay_knows_the_bytes_that_the_other_cta_expects() -> None:
    array, out = RNG.random((16, 32), np.float32), np.zeros((16, 32), np.float32)
    trace = launch("expecting", gpuemu.TensorMap(array, (4, 32)), out, ctas=2)
    np.testing.assert_array_equal(out, array)
    cycles = gpuemu.run(trace, "sm_100").cycles
    apart = gpuemu.run(launch("pair", gpuemu.TensorMap(array, (4, 32)), out, ctas=2), "sm_100").cycles
    assert cycles > 1.3 * apart  # two rounds wait for two copies


def test_a_replay_knows_the_bytes_that_a_multicast_of_a_pair_brings_to_both() -> None:
    array, out = RNG.random((8, 32), np.float32), np.zeros((2, 8, 32), np.float32)
    trace = launch("spread", gpuemu.TensorMap(array, (4, 32)), out, ctas=2)
    np.testing.assert_array_equal(out, np.stack([array, array]))
    assert gpuemu.run(trace, "sm_100").cycles > 0


def test_a_thread_loads_and_stores_256_bits() -> None:
    array, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    trace = launch("wide", array, out)
    np.testing.assert_array_equal(out.reshape(32, 8), array.reshape(32, 8)[:, ::-1])
    wide = [i for i in trace.code if i.mnemonic in ("LDG", "STG")]
    assert [i.operation.width_bits for i in wide] == [256, 256]
    (registers, _) = written_and_read(wide[0].opcode, wide[0].operands, "")
    assert len(registers) == 8
    counters = gpuemu.run(trace, "sm_100").counters
    for access in ("ld", "st"):
        assert counters[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{access}.sum"] == 32


def test_a_swizzle_may_keep_32_bytes_together() -> None:
    array, out = np.arange(8 * 32, dtype=np.float32).reshape(8, 32), np.zeros((8, 32), np.float32)
    launch("pair", gpuemu.TensorMap(array, (4, 32), swizzle=128, chunk_bytes=32), out, ctas=2)
    chunks, row = np.arange(4)[None], np.arange(8)[:, None]
    expected = array.reshape(8, 4, 8)[row, chunks ^ row % 4].reshape(8, 32)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(GpuemuError, match="chunk_bytes: found 32"):
        gpuemu.TensorMap(array, (4, 16), swizzle=64, chunk_bytes=32)
