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
AWAITS = 41
"""Whether lanes may wait here while their group gives way."""
IS_MEMORY = 42
"""Whether a log has the addresses of its lanes."""
COLUMNS = 43

LOOK_ROWS, LOOK_ROW = range(2)
"""A slot: how many rows it names, and these, predicates after all registers."""
MOST_LOOK_ROWS = 12
MOST_LOOKS, LOOK_PLACES = 1024, 4096
"""Looks that are remembered, and places in their table."""

RESULTS, TRUTH_RESULTS = 8, 4
"""The first scratch rows of what an operation gives."""
ZERO_ROW, UNIFORM_ROW, UNIFORM_TRUTH, UNIFORM_ROWS_END = 255, 256, 8, 512
"""The row of RZ, the first uniform register and the first uniform predicate; and an end of both."""
PYTHON = 0
"""The executor does it."""
FIRST_OPERATION = 1
"""The first operation of the table of lanes."""
FIRST_CONTROL, AFTER_CONTROL = 200, 210
BRANCH, EXIT, BARRIER, EXPECT, MEET, SYNC, FORGET, PAUSE, JUMP, DIVERGE = range(FIRST_CONTROL, AFTER_CONTROL)
(
    LOAD, STORE, MATRICES, SHUFFLE, VOTE, LEADER, COPY, PRODUCT, ATOMIC, NOTHING, PACK, UNPACK, REDUCE, MATCH, CONSTANT,
    WARPGROUP,
) = range(AFTER_CONTROL, 226)  # fmt: skip

IN_GLOBAL, IN_SHARED, IN_LOCAL, GENERIC = range(4)
"""The memory that an instruction names."""
GENERIC_SHARED = 1
"""The number of shared memory in a record of generic addresses; see `trace.model`."""
(SIZE, SIGNED, MEMORY, OFFSET, SCALE, ROW, PAIR, UNIFORM, UNIFORM_PAIR, DATA) = range(NUMBER, NUMBER + 10)
"""Numbers of an access: log2 of its bytes, whether it extends a sign, the memory; the terms of its address, registers
by their rows or -1; and the row of the data, -1 for RZ."""
BANK, BANK_LEAST, BANK_END = MEMORY, UNIFORM, UNIFORM_PAIR
"""The address of a constant bank, its first offset that may be loaded, and the end of those."""
COMPARE_EXCHANGE, CAST_EXCHANGE = 100, 101
"""An atomic has the number of its change in SIGNED, or one of these; the second returns whether it exchanged. READ has
the row of the word to compare with, WRITE that of what it returns and SET that of its predicate, each -1 for none."""
SOURCE = READ - NUMBER
"""The distance from the columns of an address to those of the address that a copy reads."""
(OF_A, OF_B, OF_C, OF_D, A_COUNT, B_COUNT, C_COUNT, FORM, KEPT, AT_ONCE) = range(NUMBER, NUMBER + 10)
"""Numbers of a matrix product: the first rows of A, B, C and D, or -1; their registers, D having as many as C; which of
the kernel's forms; kept bits, and products that are summed at once."""
(BLOCKS, ACROSS, SIGNS_A, SIGNS_B, ELEMENT_BYTES, SHARED_FROM) = range(READ, READ + 6)
"""More numbers of a product of matrices in shared memory. OF_A is -1 if A is there, and OF_B has the row of the
descriptors. Blocks of eight columns; 1 for a transposed A, + 2 for a transposed B; the bits of their words to invert;
and the address of the CTA's first byte. TRUTH says whether C counts."""
(THREADS, WAITS, ALL_OF, ALONE_PASSES, VOTES) = range(NUMBER + 1, NUMBER + 6)
"""A CTA barrier, whose number is in NUMBER: its threads, or -1 for all; whether lanes wait there; whether a vote is
true only if all are; whether a CTA whose lanes are all there just passes; and whether the lanes vote, by TRUTH."""
EVERY = NUMBER + 1
"""A pause: how often a group pauses until it gives way."""
CHOSEN, FIRST_TRUTH, SHIFT = range(NUMBER, NUMBER + 3)
"""P2R and R2P: the predicates as bits, the row of the first one, and the distance of its bit from the lowest."""
YIELDS = 32
"""A loop that yields more often than this may wait for other lanes."""
IS_WIDE = NUMBER + 1
"""A jump to the address in the register of READ, plus the one in NUMBER: whether the register is a pair."""
WHOLE = NUMBER + 1
"""A WARPSYNC at the barrier in NUMBER: whether all lanes name the same lanes, in READ + 2, or the register in READ."""

(BARRIER_ARRIVED, BARRIER_EXPECTED, BARRIER_SINCE, BARRIER_VOTES, BARRIER_ALL_OF) = range(5)
"""A barrier of the CTA: arrived lanes, expected ones or -1 for all, the number of the first arrival; whether it has
votes, and whether all must be true."""
BARRIER_HEADS = 5
GROUP_PC, GROUP_WAY, GROUP_POLLS = range(3)
"""A group of lanes: its next instruction, whether it gives way, and how often it has paused."""
GROUP_NUMBERS = 3
WARPSYNC, COLLECTIVE, CONVERGENCE_BARRIERS = 16, 17, 18
"""The convergence barriers of WARPSYNC, and how many there are."""

(
    PC, LIMIT, MOST, DONE, FIRST, LAST, MEETINGS, CODE_LENGTH, SHARED, WRITTEN, SHARED_BYTES, ALL_WRITTEN, LOCAL,
    LOCAL_PITCH, LOCAL_BYTES, BUFFERS, LAST_BUFFER, SHARED_START, LOCAL_WINDOW, WINDOW_BYTES, CTAS,
    REGISTER_ROWS, UNIFORM_ROWS, CTA_ROWS, GRID_X, GRID_Y, SYSTEM_FROM, SYSTEM_TO, LOCAL_USED,
    LOOKS, CLOCK, GROUPS, CURRENT, TURN, LEFT, WARPS, STEPS, WAITING, ARRIVALS, SAVED, LETS_GO, TARGET,
    LOGS, LOG_STEPS, LOG_BLOCKS, LOG_SETS, LOG_SET, LOG_GUARDED,
    ANY_WAITS, NEWS, SEEN_LOOKS, BARRIERS_NAMED, ZEROED, WRITTEN_UNTIL,
) = range(54)  # fmt: skip
"""The state: numbers and addresses that the loops find, and leave. BARRIERS_NAMED has a bit for each convergence
barrier that the code may use. ALL_WRITTEN says whether all shared memory has been written, and ZEROED whether it counts
as written in a new CTA. It is known to be written until WRITTEN_UNTIL."""
STATE_NUMBERS = 56
WITH_GUARDS = 2
"""The value of LOGS if a record also has the lanes that are left after each guard; 1 without them, 0 for no record."""
BUFFER_START, BUFFER_BYTES, HOST_START, IS_READ, IS_WRITTEN, PAGES, READ_MARKS, WRITE_MARKS = range(8)
"""A buffer: its device address, its bytes and its host address; whether lanes have read it and written it. The others
are the addresses of a thread's marks: a byte for each page, and a bit for each byte. PAGES is 0 without any marks."""
BUFFER_COLUMNS = 8
UNTOUCHED = -1
"""The value of PAGES if the thread must not write to the buffer."""
READ_PAGE, WRITTEN_PAGE, PAGE_WORDS = 1, 2, 64
"""The marks of a page, and the words that mark its bytes."""
NO_BLOCK = -1
"""An access without active lanes, in place of the number of its memory."""
TURN_STEPS = 1024
"""Steps after which a group gives way to another that could run."""
AT_ONCE_STEPS = 1 << 20
"""Steps after which the loops come back, so that a key that interrupts is heard."""

AT_LIMIT, NEEDS_PYTHON, ENDED, SPENT, SPLIT, PAUSED, UNCHANGED = range(7)
"""Why a turn or the loops stop: the group is at its limit; an instruction is for the executor; no group is left; all
steps are taken; the group waits or has split; the loops come back for a moment. UNCHANGED: the turn goes on."""
