"""Launches on the emulated chip that are written by hand: the steps of their warps, and where the data of CTAs lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuemu import load_arch
from gpuemu.chip import clock
from gpuemu.chip.clock import Grid
from gpuemu.chip.state import Steps
from gpuemu.chip.streams import L2Requests

ARCH = load_arch("sm_90")
H200 = ARCH.chips["H200"]


def steps(*warps, lines=(), meetings=()):
    """Steps of warps, each a list of (wait, issue, stage, kind, at); each line is a request of its own."""
    column = [step for warp in warps for step in warp]
    count = len(lines)
    zeros = np.zeros(count, np.int64)
    return Steps(
        first=np.cumsum([0, *map(len, warps)]), start=np.zeros(len(warps), np.int64),
        sub_core=np.arange(len(warps)) % 4, wait=np.array([s[0] for s in column], float),
        issue=np.array([s[1] for s in column], float), stage=np.array([s[2] for s in column], float),
        kind=np.array([s[3] for s in column]), at=np.array([s[4] for s in column]),
        line_of=np.arange(count + 1), lead=zeros, stores=zeros, meets=zeros - 1, takes=zeros,
        arrivals=np.array(meetings, np.int64), address=np.array(lines, np.int64), mask=zeros + 15, sent=zeros + 4,
        masks=zeros, serial=zeros.astype(float), move=zeros, turn=zeros, before=zeros.astype(float), tail=0,
    )  # fmt: skip


def grid(ctas=1, resident=1, cold=False, far=None):
    """CTAs of equal work, `far` bytes apart, or on the same data."""
    none = np.zeros(1, np.int64)
    pattern = L2Requests(none, none, none, none, none > 0, none > 0, none, none, none, 0)
    move = np.zeros(1, np.int64) if far is None else np.arange(ctas) * far
    return Grid(pattern, {0: move}, (np.ones(ctas),) * 3, (), resident, cold, accesses=True)


def launch(given, of, sms=1, chip=H200, marks=(), **values):
    """A launch of these steps that has not begun."""
    numbers = clock._chip(ARCH, chip, replace(of, accesses=len(given.lead) > 0), sms)._replace(**values)
    return clock._launch(given, of, numbers, list(marks))
