"""The numbers by which compiled code knows instructions and the state of a CTA: columns of arrays, and what they say.

Whole numbers only: `source` writes them into the compiled text.
"""

OP, GUARD = 0, 1
"""The operation; and the guard: 0 for none, else 1 + 2 x the row of its predicate, + 1 if it is negated."""
READS, READ = 2, 3
"""How many registers are read, and for each: its row or -1, decorations and whether it is a pair, bits."""
READ_COLUMNS = 3
IS_PAIR = 256
TRUTHS, TRUTH = 18, 19
"""How many predicates are read, and for each 4 x its row + its decorations."""
NUMBER = 22
"""Numbers that the instruction fixes."""
WRITES, WRITE, WRITE_PAIR = 32, 33, 35
"""How many registers are written, the row of each or -1, and whether it is a pair."""
SETS, SET = 37, 38
"""How many predicates are written, and the row of each or -1."""
LOOK = 40
"""0, or 1 + the slot of a load that may wait for what another thread writes."""
COLUMNS = 41

LOOK_STATE, LOOK_CLOCK, LOOK_WHO, LOOK_ROWS, LOOK_ROW = range(5)
"""A slot: what is known of it, the clock and the group's set of warps at its last look, and the rows that it names."""
MOST_LOOK_ROWS = 12
UNKNOWN, SEEN, ASK = range(3)
"""The CTA has not looked there; it has, by compiled loops or the executor; the executor must do it."""

RESULTS, TRUTH_RESULTS = 8, 4
"""The first scratch rows of what an operation gives."""
ZERO_ROW, UNIFORM_ROW, UNIFORM_TRUTH = 255, 256, 8
"""The row of RZ, the first uniform register and the first uniform predicate."""
PYTHON = 0
"""The executor does it."""
FIRST_OPERATION = 1
"""The first operation of the table of lanes."""
BRANCH, EXIT, NOTHING, BARRIER, EXPECT, MEET, SYNC = range(200, 207)
LOAD, STORE, MATRICES, SHUFFLE, VOTE, LEADER, COPY, PRODUCT, ATOMIC = range(210, 219)

IN_GLOBAL, IN_SHARED, IN_LOCAL, GENERIC = range(4)
"""The memory that an instruction names."""
(SIZE, SIGNED, MEMORY, OFFSET, SCALE, ROW, PAIR, UNIFORM, UNIFORM_PAIR, DATA) = range(NUMBER, NUMBER + 10)
"""Numbers of an access: log2 of its bytes, whether it extends a sign, the memory; the terms of its address, registers
by their rows or -1; and the row of the data, -1 for RZ."""
COMPARE_EXCHANGE = 100
"""An atomic has the number of its change in SIGNED, or this; the row of the word to compare with in READ, that of what
it returns in WRITE and that of its predicate in SET, each -1 for none."""
SOURCE = READ - NUMBER
"""The distance from the columns of an address to those of the address that a copy reads."""
(OF_A, OF_B, OF_C, OF_D, A_COUNT, B_COUNT, C_COUNT, FORM, KEPT, AT_ONCE) = range(NUMBER, NUMBER + 10)
"""Numbers of a matrix product: the first rows of A, B, C and D, or -1; their registers, D having as many as C; which of
the kernel's forms; kept bits, and products that are summed at once."""

(
    PC, LIMIT, MOST, DONE, FIRST, LAST, ALONE, MEETINGS, CODE_LENGTH, SHARED, WRITTEN, SHARED_BYTES, ALL_WRITTEN, LOCAL,
    LOCAL_PITCH, LOCAL_BYTES, BUFFERS, LAST_BUFFER, SHARED_START, LOCAL_WINDOW, WINDOW_BYTES, CTAS,
    REGISTER_ROWS, UNIFORM_ROWS, CTA_ROWS, GRID_X, GRID_Y, SYSTEM_FROM, SYSTEM_TO, LOCAL_USED,
    LOOKS, CLOCK, WHO,
) = range(33)  # fmt: skip
"""The state: numbers and addresses that the loops find, and leave."""
STATE_NUMBERS = 40

AT_LIMIT, NEEDS_PYTHON, ENDED, SPENT = range(4)
"""Why the loops stop: the group is at its limit or at the end of the code; an instruction is for the executor; all
lanes have left; as many instructions as it may have been executed."""
