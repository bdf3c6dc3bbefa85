"""The places of winners of public tuning runs in the order of `gpuemu rank`. No GPU is needed.

    python -m validation winners sglang-0.5.23-*.whl --spaces 2 --sample 40

The wheel of sglang has tuned configurations of its fused mixture-of-experts kernel, and the kernel's source. A tuned
entry names the fastest of 1,920 configurations on a chip for E experts, N columns and M tokens. The command estimates
the winner and a random sample of the others, so the share of the sample in front of the winner estimates the share of
the space. Entries whose hash begins with 8 to f stay aside. Only models with known sizes count: a name has no hidden
size and no number of experts per token.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import importlib.util
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.hardware import hardware
from gpuemu.base.table import Cell, Table, number, words
from validation.records import RecordError

KERNELS = "sglang/kernels/ops/moe/fused_moe_triton_kernels.py"
FUNCTIONS = ("write_zeros_to_output", "fused_moe_kernel")
CHIPS = {
    "NVIDIA_H100_80GB_HBM3": "H100", "NVIDIA_H200": "H200", "NVIDIA_A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA_A100-SXM4-40GB": "A100", "NVIDIA_L40S": "L40S",
}  # fmt: skip
"""The names of devices in the names of files, and the chips of gpuemu."""
MODELS = {
    8: ((4096, 2, 14336), (6144, 2, 16384)),  # Mixtral 8x7B and 8x22B
    16: ((6144, 4, 10752),),  # DBRX
    64: ((3584, 8, 2560),),  # Qwen2-57B-A14B
}  # fmt: skip
"""By the number of experts: the hidden size, the experts per token, and the columns of all GPUs together."""
SPACE = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256), "BLOCK_SIZE_N": (32, 64, 128, 256), "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64), "num_warps": (4, 8), "num_stages": (2, 3, 4, 5),
}  # fmt: skip
"""The configurations that sglang's tuner tries."""
SHARES = (0.01, 0.05, 0.10)
_NAME = re.compile(r"/E=(\d+),N=(\d+),device_name=([^,/]+)\.json$")
_GPUS = (1, 2, 4, 8)

Chosen = dict[str, int]


@dataclass(frozen=True)
class Problem:
    """A tuned entry: `columns` per GPU, `hidden` columns of the tokens, `top` experts per token, and the winner."""

    chip: str
    experts: int
    columns: int
    tokens: int
    hidden: int
    top: int
    winner: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return f"{self.chip} E={self.experts} N={self.columns} M={self.tokens}"

    @property
    def bytes(self) -> int:
        """The bytes of the first product's weights."""
        return 4 * self.experts * self.columns * self.hidden


@dataclass(frozen=True)
class Place:
    """The shares of the other configurations in front of the winner, by our order and by an occupancy rule.

    `behind_best`: the estimated time of the winner over the least one, less 1. Configurations that do not fit count
    neither here nor in `tried`.
    """

    problem: Problem
    tried: int
    share: float
    occupancy_share: float
    behind_best: float


def kept(device: str, experts: int, columns: int, tokens: int) -> bool:
    """Whether an entry may be used: the others stay aside."""
    return hashlib.sha1(f"{device}|{experts}|{columns}|{tokens}".encode()).hexdigest()[0] in "01234567"


def problems(wheel: Path) -> Iterator[Problem]:
    """The usable entries of a wheel, for chips and models that are known. Raises RecordError."""
    seen: set[str] = set()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for path in sorted(archive.namelist(), reverse=True):  # of several Triton versions, the newest
                if (found := _NAME.search(path)) and found[3] in CHIPS:
                    told = json.loads(archive.read(path))
                    for one in _of_file(found[3], int(found[1]), int(found[2]), told):
                        if one.name not in seen:
                            seen.add(one.name)
                            yield one
    except (OSError, zipfile.BadZipFile, json.JSONDecodeError) as error:
        raise RecordError(f"{wheel}: {error}. Download it with `pip download sglang --no-deps`") from None


def _of_file(device: str, experts: int, columns: int, told: Mapping[str, Any]) -> Iterator[Problem]:
    models = [(hidden, top) for hidden, top, all_columns in MODELS.get(experts, ())
              if all_columns in [columns * gpus for gpus in _GPUS]]  # fmt: skip
    entries = {tokens: winner for tokens, winner in told.items() if tokens.isdigit()}
    if any(winner.get(name) not in SPACE[name] for winner in entries.values() for name in SPACE):
        return  # tuned over another space, which is not known
    for tokens, winner in entries.items():
        if len(models) == 1 and kept(device, experts, columns, int(tokens)):
            chosen = tuple((name, int(winner[name])) for name in SPACE)
            yield Problem(CHIPS[device], experts, columns, int(tokens), *models[0], chosen)


def picked(every: Sequence[Problem], spaces: int, most_tokens: int) -> list[Problem]:
    """So many problems of each chip, spread by a hash of their names. Their weights fit into half a gigabyte."""
    found = []
    for chip in dict.fromkeys(CHIPS.values()):
        of_it = [one for one in every if one.chip == chip and one.tokens <= most_tokens and one.bytes <= 5e8]
        found += sorted(of_it, key=lambda one: hashlib.sha256(one.name.encode()).digest())[:spaces]
    return found


def sampled(problem: Problem, count: int, shared_bytes: int) -> list[Chosen]:
    """The winner, and a random sample of the other configurations that may fit into the shared memory of a CTA."""
    winner = dict(problem.winner)
    every = (dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values()))
    others = [one for one in every if one != winner and _stage_bytes(one) * (one["num_stages"] - 1) <= shared_bytes]
    seed = int.from_bytes(hashlib.sha256(problem.name.encode()).digest()[:4], "little")
    chosen = np.random.default_rng(seed).choice(len(others), count - 1, replace=False)
    return [winner, *(others[int(at)] for at in chosen)]


def _stage_bytes(one: Chosen) -> int:
    """The bytes of the two tiles of a stage. Triton needs at least one stage less than the configuration says."""
    return 2 * one["BLOCK_SIZE_K"] * (one["BLOCK_SIZE_M"] + one["BLOCK_SIZE_N"])


# --- the kernel -------------------------------------------------------------------------------------------------------


def kernel_module(wheel: Path, folder: Path) -> ModuleType:
    """The kernel's functions from the wheel, as a module. Triton reads their source from the file."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(KERNELS).decode()
    lines = text.splitlines()
    parts = ["import triton", "import triton.language as tl"]
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
            first = min(one.lineno for one in node.decorator_list)
            parts += ["", "", *lines[first - 1 : node.end_lineno]]
    path = folder / "fused_moe.py"
    path.write_text("\n".join(parts) + "\n")
    spec = importlib.util.spec_from_file_location("fused_moe", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def routed(tokens: int, experts: int, top: int, block: int) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Random experts for each token: the pairs of token and expert sorted by expert, the expert of each block, and the
    padded number of pairs. Each expert's pairs are padded to whole blocks with a number beyond the last pair.
    """
    random = np.random.default_rng(0)
    chosen = np.argsort(random.random((tokens, experts)), axis=1)[:, :top].reshape(-1)
    pairs = tokens * top
    room = pairs + experts * (block - 1) if pairs >= experts else pairs * block
    room = -(-room // block) * block
    ids, owners = np.full(room, pairs, np.int32), np.full(room // block, -1, np.int32)
    at = 0
    for expert in range(experts):
        mine = np.flatnonzero(chosen == expert)
        ids[at : at + len(mine)] = mine
        blocks = -(-len(mine) // block)
        owners[at // block : at // block + blocks] = expert
        at += blocks * block
    return ids, owners, at


class Product:
    """One of the two products of a layer, with arrays that its configurations share."""

    def __init__(self, problem: Problem, second: bool, kernel: Any, configurations: Sequence[Chosen]):
        self.kernel, self.configurations = kernel, configurations
        hidden, columns = problem.hidden, problem.columns
        self.problem, self.second = problem, second
        self.rows = problem.tokens * (problem.top if second else 1)
        self.n, self.k = (hidden, columns) if second else (2 * columns, hidden)
        half = np.float16
        self.a = np.zeros((self.rows, self.k), half)
        self.b = np.zeros((problem.experts, self.n, self.k), half)
        self.c = np.zeros((problem.tokens * problem.top, self.n), half)
        self.weights = np.zeros(problem.tokens * problem.top, np.float32)

    def launch(self, number: int) -> None:
        """Launch the kernel in a configuration, as sglang does for half-precision weights."""
        import triton.language as tl

        chosen = self.configurations[number]
        problem, top = self.problem, self.problem.top
        ids, owners, padded = routed(problem.tokens, problem.experts, top, chosen["BLOCK_SIZE_M"])
        grid = len(owners) * -(-self.n // chosen["BLOCK_SIZE_N"])
        pointers = self.a, None, self.b, None, None, self.c, None, None, self.weights, ids, owners
        sizes = self.n, self.k, len(ids), problem.tokens * top
        strides = self.k, 1, self.n * self.k, 1, self.k, 0, 0, self.n, 1, 0, 0, 0, 0, 0
        self.kernel[(grid,)](
            *pointers, np.array([padded], np.int32), None, *sizes, *strides, 0, 0,
            MUL_ROUTED_WEIGHT=self.second, top_k=1 if self.second else top, compute_type=tl.float16,
            use_fp8_w8a8=False, use_int8_w8a8=False, use_int8_w8a16=False, per_channel_quant=False,
            even_Ks=self.k % chosen["BLOCK_SIZE_K"] == 0, c_sorted=False, swap_ab=False, FUSE_ADD_TO_OUTPUT=False,
            MASK_OUTPUT=False, FUSE_SUM_ALL_REDUCE=False, ROUTER_TOPK=1, **chosen,
        )  # fmt: skip


def place(problem: Problem, wheel: Path, sample: int, jobs: int | None) -> Place:
    """Estimate the winner and the sample. Raises RecordError if the winner does not run."""
    from gpuemu.triton.tuner_hooks import ranked

    (arch,) = hardware(None, problem.chip)
    memory = arch.shared_memory
    every = sampled(problem, sample, memory.capacity_bytes - memory.reserved_bytes_per_cta)
    times: list[dict[int, float]] = []
    refused: list[str] = []
    warps: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        kernel = kernel_module(wheel, Path(folder)).fused_moe_kernel
        for second in (False, True):
            one = Product(problem, second, kernel, every)
            found = ranked(one.launch, every, arch, jobs)
            rows = found.rows if found is not None else ()
            refused += [one.reason for one in found.refused if one.values["number"] == 0] if found is not None else []
            times.append({row.values["number"]: row.nanoseconds for row in rows})
            warps.update({row.values["number"]: row.figures["warps"] for row in rows})
    both = {at: times[0][at] + times[1][at] for at in times[0] if at in times[1]}
    others = [at for at in both if at]
    if 0 not in both or not others:
        raise RecordError(f"{problem.name}: the winner does not run, or it runs alone {'; '.join(refused)}".strip())
    faster = sum(both[at] < both[0] for at in others)
    denser = sum((warps[at] > warps[0]) + 0.5 * (warps[at] == warps[0]) for at in others)
    return Place(
        problem, len(both), faster / len(others), denser / len(others), both[0] / min(both.values()) - 1
    )  # fmt: skip


# --- the report -------------------------------------------------------------------------------------------------------


def lines(places: Sequence[Place]) -> list[str]:
    """A row for each chip, and the means over chips beside an occupancy rule and a random order."""
    heads = [
        words("chip"), number("spaces"), number("tried"),
        *(number(f"first {share:.0%}", ".0%") for share in SHARES),
        *(number(f"occupancy {share:.0%}", ".0%") for share in SHARES), number("median share", ".0%"),
        number("winner behind our first", ".1%"),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    shares: list[list[float]] = []
    by_chip: dict[str, list[Place]] = {}
    for one in places:
        by_chip.setdefault(one.problem.chip, []).append(one)
    for chip, of_it in by_chip.items():
        ours = [fmean(one.share <= share for one in of_it) for share in SHARES]
        rule = [fmean(one.occupancy_share <= share for one in of_it) for share in SHARES]
        middle = float(np.median([one.share for one in of_it]))
        slower = fmean(one.behind_best for one in of_it)
        shares.append([*ours, *rule])
        rows.append((chip, len(of_it), sum(one.tried for one in of_it), *ours, *rule, middle, slower))
    means = [fmean(one[at] for one in shares) for at in range(2 * len(SHARES))]
    rows.append(("mean over chips", len(places), sum(one.tried for one in places), *means, None, None))
    found = Table(heads, rows).text(140).splitlines()
    return [*found, f"a random order: {', '.join(f'{share:.0%}' for share in SHARES)}"]


def main(options: argparse.Namespace) -> None:
    """Place the winners of the chosen problems, print the table, and write the places if asked."""
    todo = picked(list(problems(options.wheel)), options.spaces, options.tokens)
    todo = [one for one in todo if options.chip is None or one.chip in options.chip]
    places = []
    for problem in todo:
        try:
            one = place(problem, options.wheel, options.sample, options.jobs)
        except RecordError as error:
            print(error)
            continue
        places.append(one)
        rule = f"by occupancy {one.occupancy_share:.0%}"
        print(f"{problem.name}: {one.share:.0%} of {one.tried - 1} others in front, {rule}", flush=True)
    print("\n".join(lines(places)))
    if options.output:
        with options.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("problem", "tried", "share", "occupancy_share", "behind_best"))
            for one in places:
                figures = (f"{value:.4f}" for value in (one.share, one.occupancy_share, one.behind_best))
                writer.writerow((one.problem.name, one.tried, *figures))
