"""Winners of public tuning runs: which entries count, the sample, the launch, and the report. The wheel is made here."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from validation import winners
from validation.records import RecordError
from validation.winners import Place, Problem

WINNER = {
    "BLOCK_SIZE_M": 16,
    "BLOCK_SIZE_N": 64,
    "BLOCK_SIZE_K": 64,
    "GROUP_SIZE_M": 1,
    "num_warps": 4,
    "num_stages": 2,
}
POINTERS = "a, a_desc, b, b_desc, bias, c, a_scale, b_scale, weights, ids, experts, padded, mask"
NUMBERS = "N, K, EM, pairs, am, ak, be, bk, bn, bias_e, bias_n, cm, cn, asm, ask, bse, bsk, bsn"
CONSTANTS = (
    "group_n group_k BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M MUL_ROUTED_WEIGHT top_k compute_type "
    "use_fp8_w8a8 use_int8_w8a8 use_int8_w8a16 per_channel_quant even_Ks c_sorted swap_ab FUSE_ADD_TO_OUTPUT MASK_OUTPUT "
    "FUSE_SUM_ALL_REDUCE ROUTER_TOPK"
)
KERNEL = f"""
import missing_package

@triton.jit
def write_zeros_to_output(c):
    tl.store(c, 0.0)

@triton.jit
def fused_moe_kernel({POINTERS}, {NUMBERS}, {", ".join(f"{one}: tl.constexpr" for one in CONSTANTS.split())}):
    pid = tl.program_id(0)
    place = pid // tl.cdiv(N, BLOCK_SIZE_N) * BLOCK_SIZE_M
    rows = tl.load(ids + place + tl.arange(0, BLOCK_SIZE_M))
    columns = pid % tl.cdiv(N, BLOCK_SIZE_N) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    k = tl.arange(0, BLOCK_SIZE_K)
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), tl.float32)
    for first in range(0, K, BLOCK_SIZE_K):
        x = tl.load(a + rows[:, None] // top_k * am + first + k[None, :], mask=(rows[:, None] < pairs) & (first + k[None, :] < K), other=0.0)
        y = tl.load(b + columns[None, :] % N * bn + first + k[:, None], mask=first + k[:, None] < K, other=0.0)
        total += tl.dot(x, y)
    mask = (rows[:, None] < pairs) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * cm + columns[None, :], total.to(compute_type), mask=mask)
"""
"""A product in the place of sglang's kernel, with its parameters."""


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with one tuned file for a tiny model."""
    monkeypatch.setattr(winners, "MODELS", {2: ((64, 1, 64),)})
    path = tmp_path / "sglang-1-py3-none-any.whl"
    entries = {str(tokens): WINNER for tokens in (1, 2, 4, 8, 16, 32)} | {"triton_version": "3.9"}
    other = {"1": WINNER | {"num_warps": 2}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(winners.KERNELS, KERNEL)
        archive.writestr("sglang/configs/triton_3_1_0/E=2,N=64,device_name=NVIDIA_H200.json", json.dumps(entries))
        archive.writestr("sglang/configs/triton_3_1_0/E=2,N=32,device_name=NVIDIA_H200.json", json.dumps(other))
        archive.writestr("sglang/configs/triton_3_1_0/E=2,N=64,device_name=NVIDIA_B200.json", json.dumps(entries))
        archive.writestr("sglang/configs/triton_3_1_0/E=3,N=64,device_name=NVIDIA_H200.json", json.dumps(entries))
    return path


def test_entries_that_are_kept_aside_and_unknown_models_chips_and_spaces_do_not_count(wheel: Path) -> None:
    found = list(winners.problems(wheel))
    assert {(one.chip, one.experts, one.columns) for one in found} == {("H200", 2, 64)}
    tokens = {one.tokens for one in found}
    assert tokens == {one for one in (1, 2, 4, 8, 16, 32) if winners.kept("NVIDIA_H200", 2, 64, one)}
    assert 0 < len(tokens) < 6
    assert winners.picked(found, 1, 1000) == winners.picked(found, 1, 1000)
    assert winners.picked(found, 9, 0) == []


def test_an_entry_is_kept_aside_by_its_hash() -> None:
    # The first hexadecimal digit of the sha1 of "NVIDIA_L40S|8|3584|1" is 0 to 7, and that of ...|8 is not.
    assert winners.kept("NVIDIA_L40S", 8, 3584, 1)
    assert not winners.kept("NVIDIA_L40S", 8, 3584, 8)


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("no")
    with pytest.raises(RecordError, match="pip download sglang"):
        list(winners.problems(tmp_path / "x.whl"))


def problem(tokens: int = 4) -> Problem:
    return Problem("H200", 2, 64, tokens, 64, 1, tuple(WINNER.items()))


def test_a_sample_has_the_winner_first_and_only_what_may_fit() -> None:
    found = winners.sampled(problem(), 30, 100_000)
    assert found[0] == WINNER
    assert len({tuple(one.items()) for one in found}) == 30
    assert found == winners.sampled(problem(), 30, 100_000)
    sizes = [
        2 * (one["num_stages"] - 1) * one["BLOCK_SIZE_K"] * (one["BLOCK_SIZE_M"] + one["BLOCK_SIZE_N"]) for one in found
    ]
    assert max(sizes) <= 100_000


def test_routed_pairs_are_sorted_by_expert_and_padded_to_blocks() -> None:
    ids, owners, padded = winners.routed(5, 3, 2, 4)
    assert padded % 4 == 0
    assert sorted(ids[ids < 10]) == list(range(10))
    assert all(owners[padded // 4 :] == -1)
    of_block = np.repeat(owners, 4)
    for token in range(5):
        assert len({of_block[np.flatnonzero(ids == pair)[0]] for pair in (2 * token, 2 * token + 1)}) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")
def test_a_winner_gets_its_place_among_a_sample(wheel: Path) -> None:
    pytest.importorskip("triton", reason="the kernel is Triton's")
    found = winners.place(problem(), wheel, 3, 1)
    assert found.tried == 3
    assert found.share in (0.0, 0.5, 1.0)
    assert (found.share == 0) == (found.behind_best == 0)


def test_the_report_counts_winners_by_chip() -> None:
    places = [Place(problem(), 21, share, 0.5, share) for share in (0.0, 0.05, 0.3)]
    text = "\n".join(winners.lines(places))
    (row,) = [line.split() for line in text.splitlines() if line.startswith("H200")]
    assert row[1:3] == ["3", "63"]
    assert row[3:6] == ["33%", "67%", "67%"]
    assert row[6:9] == ["0%", "0%", "0%"]
    assert "a random order: 1%, 5%, 10%" in text
