"""How instructions are treated, as numbers: those of `isa.opcodes.Kind` less one; and the kinds of pipes."""

from __future__ import annotations

FIXED = 0
VARIABLE = 1
SHARED = 2
GLOBAL = 3
SHUFFLE = 4
BARRIER = 5
BRANCH = 6
EXIT = 7
COUNTER_WAIT = 8
COPY_COMMIT = 9
LANE_REGISTER = 10

PLAIN = 0
SHARED_PARTS = 1
MIO_QUEUE = 2
DIVERGENCE_QUEUE = 3
SPECIAL_QUEUE = 4
"""Pipes from MIO_QUEUE on are queues: it is not an instruction's issue interval that closes them."""
