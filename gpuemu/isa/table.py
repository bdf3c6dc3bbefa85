"""The instructions that the model knows: one row per mnemonic, which determines everything else about it.

A line of the table lists similar mnemonics, and has these columns:

**Unit and class.** How the engine treats the instruction (`opcodes.Kind`), and the key of its timing in the
architecture file. The file also names its pipe. A modifier may select another class: `imad WIDE=imad_wide`. `tensor`
and `warpgroup` instructions have the timing of their shape.

**Operands.** The destinations, `<-`, then the width of each source. The last width holds for all further sources, and
`<- 1` may be omitted. `p` is an optional predicate, `r` a register, `m` the mask of all predicates. The width of a
source, or of a destination after `r`, is a number of 32-bit words:

    1  2   this number                         n      as .64 and .128 say
    m      a matrix of LDSM or STSM each       w  h   two with .WIDE; two with .WIDE or .HI
    c      two, but one with .32               d      two with .64, .S64, .U64, .M832
    t  f   the type that it converts to; the type that it converts from
    A B C  a fragment of a product             s      two with .SF.SP: metadata and scales
    x      the shape of LDTM or STTM, times N of xN; LDTM.STAT writes a register for the statistic before
    q      scales of A and B of a tcgen05.mma: two; its mask of lanes: four, or eight with .2CTA; of columns (.WS): two

An address (in brackets) has one register, or two with .64.

**Numbers.** How the instruction interprets its sources: as `whole` numbers, as `float`, as bits to copy (`moved`), or
by the modifiers of an atomic (`typed`). A - means none of these.

**Notes.** `guessed`: no rule times it, so it takes the time of another instruction, and every output that shows a time
names it. `load`, `store`, `atomic`, `matrix`, `local`: its effect on memory. `bulk`: a unit of its own performs the
effect. `events`: it copies blocks, or changes or tests an mbarrier. `generic=LDS`: the address of each lane selects the
memory, and LDS does the same to shared memory. `half`: its immediates have 16 bits. `third`: its second source occupies
the position of FFMA's third source. `late=2`: in the class that a modifier selects, it reads the upper half of source 2
late. `leaves`: without a guard, control does not reach the next instruction. `own`: its class is a unit of its own,
which times it. `reversed`: it sends its first source, then the others from last to first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.kind import Kind

_TABLE = """
IADD3                                  | fixed integer  | p r p p | whole
LEA VOTE                               | fixed integer  | p r p   | whole
IADD                                   | fixed integer  | p rd p <- d | whole
IMNMX                                  | fixed integer  | p p rd <- d | whole
IABS VIMNMX VIMNMX3                    | fixed integer  | p r     | whole
VIADDMNMX VABSDIFF VABSDIFF4           | fixed integer  | p r     | whole
I2FP BMSK SGXT                         | fixed integer  | p r     | whole
SEL                                    | fixed integer  | p rd <- d | moved
LOP3 LOP SHF SHL SHR FSEL PRMT         | fixed integer  | p r     | moved
FMNMX FMNMX3 FSET F2FP F2IP            | fixed integer  | p r     | float
HMNMX2                                 | fixed integer  | p r     | float | half
CREDUX                                 | fixed integer  | p r     | -
ISETP                                  | fixed integer  | p p <- d | whole
PLOP3                                  | fixed integer  | p p     | whole
FSETP                                  | fixed integer  | p p     | float
FCHK                                   | fixed integer  | p       | float
R2P                                    | fixed integer  | m       | whole
B2R                                    | fixed integer  | p r p   | -
R2B P2R I2IP ISET LEPC VHMNMX          | fixed integer  | p r     | -
IADD32I LOP32I                         | fixed integer  | p r     | -
MOV                                    | fixed move     | p rd <- d | moved
R2UR                                   | fixed move     | p r     | moved
MOV32I RPCMOV                          | fixed move     | p r     | -
CS2R                                   | fixed move     | p rc    | -
FFMA FMUL FSWZADD                      | fixed ffma     | p r     | float
FADD                                   | fixed ffma     | p r     | float | third
FFMA32I FADD32I FMUL32I                | fixed ffma     | p r     | -
IMAD                                   | fixed imad WIDE=imad_wide HI=imad_wide | p rw p <- 1 1 h 1 | whole | late=2
IDP IMUL VIADD                         | fixed imad     | p r     | whole
FHFMA                                  | fixed ffma     | p r     | -
FHADD                                  | fixed ffma     | p r     | - | third
FFMA2 FMUL2                            | fixed half     | p r2 <- 2 | float
FADD2                                  | fixed half     | p r2 <- 2 | float | third
HFMA2                                  | fixed half MMA=half_mma | p r | float | half
HADD2                                  | fixed half F32=imad | p r | float | half third
HMUL2 HSET2                            | fixed half     | p r     | float | half
HSETP2                                 | fixed half     | p p     | float | half
DFMA DMUL DMNMX                        | fixed fp64     | p r2 <- 2 | float
DADD                                   | fixed fp64     | p r2 <- 2 | float | third
DSETP                                  | fixed fp64     | p p <- 2 | float
UIADD3                                 | fixed uniform  | p rd p p <- d | whole
ULEA VOTEU                             | fixed uniform  | p r p   | whole
UIMAD                                  | fixed uniform  | p rw p <- 1 1 h 1 | whole
UISETP                                 | fixed uniform  | p p <- d | whole
UPLOP3                                 | fixed uniform  | p p     | whole
UFADD UFMUL UFFMA UFMNMX UF2FP         | fixed uniform  | p r     | float
UFSETP                                 | fixed uniform  | p p     | float
UF2I UF2F UFRND                        | fixed uniform  | p rt <- f | float
UI2F                                   | fixed uniform  | p rt <- f | whole
UI2FP UVIMNMX UIABS                    | fixed uniform  | p r     | whole
UFSEL                                  | fixed uniform  | p r     | moved
CS2UR                                  | fixed uniform  | p rc    | -
UBMSK USGXT UFLO UBREV UPOPC UR2UP     | fixed uniform  | p r     | whole
UIMNMX                                 | fixed uniform  | p p rd <- d | whole
ULOP3 USHF USEL UPRMT                  | fixed uniform  | p r     | moved
UP2UR UVIADD ELECT                     | fixed uniform  | p r     | -
UMOV                                   | fixed uniform_move | p rd <- d | moved
ULDC                                   | fixed uniform_move | p rn | moved
NOP PMTRIG                             | fixed nop      |         | -
WARPGROUP                              | product_wait nop |       | -
UCGABAR_ARV ACQBULK PREEXIT            | fixed nop      | p r     | -
USETMAXREG                             | variable registers | p r | - | own
NANOSLEEP                              | variable sleep |         | whole | events own

HMMA QMMA OMMA DMMA                    | fixed tensor   | rC <- A B C s 1 | float
IMMA BMMA                              | fixed tensor   | rC <- A B C 1 | whole
HGMMA QGMMA                            | product warpgroup | rC <- A C | float
IGMMA                                  | product warpgroup | rC <- A C | whole

MUFU                                   | variable mufu  | p r     | float
F2I F2F FRND                           | variable conversion | p rt <- f | float
I2F                                    | variable conversion | p rt <- f | whole
I2I FLO POPC BREV                      | variable conversion | p r | whole
REDUX                                  | variable reduction | p r  | whole
MATCH                                  | variable match | p r     | whole
MOVM                                   | variable matrix_move | p rd <- 1 | moved
LDC LDCU                               | variable constant_load | p rn | moved
S2UR                                   | variable uniform_special_register | p r | -
S2R                                    | variable special_register | p r | -
QSPC                                   | variable special_register | p r | - | guessed
UTMACMDFLUSH                           | asynchronous copy_engine | p r | - | bulk own
UBLKCP UBLKRED UBLKPF                  | asynchronous copy_engine | p r | - | bulk events own
UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL | asynchronous copy_engine | p r | - | bulk events own
UGETNEXTWORKID                         | asynchronous copy_engine | <- 1 | - | bulk events own
SYNCS                                  | asynchronous mbarriers | p r2 | - | events own
UTCBAR                                 | asynchronous tensor_memory | <- 1 | - | events own
UTCHMMA UTCQMMA UTCOMMA                | asynchronous tensor_memory | <- 1 1 1 1 1 q | float | events own
UTCIMMA                                | asynchronous tensor_memory | <- 1 1 1 1 1 q | whole | events own
UTCCP UTCSHIFT                         | asynchronous tensor_memory | <- 1 | - | own
UTCATOMSWS                             | variable tensor_memory | p r | - | own
UVIRTCOUNT                             | fixed nop      | <- 1 | -
LDTM                                   | variable tensor_memory | p rx | - | own
STTM                                   | variable tensor_memory | <- 1 x | - | own
STAS                                   | asynchronous cluster | <- n  | - | events own
ARRIVES                                | asynchronous mbarriers | | - | events own
MEMBAR FENCE ERRBAR CGAERRBAR          | variable fences |       | - | own
LD_CLUSTER                             | variable cluster | p rn  | - | own
ST_CLUSTER                             | variable cluster | <- n  | - | own
ATOM_CLUSTER                           | variable cluster | p rn <- n | - | own
CCTL CCTLL                             | variable special_register | | -

LDS                                    | shared shared  | p rn    | - | load
STS                                    | shared shared  | <- n    | - | store
LDSM                                   | shared shared  | p rm    | - | load matrix
STSM                                   | shared shared  | <- m    | - | store matrix
ATOMS                                  | shared shared  | p rn <- n | typed | atomic
LDG                                    | global load    | p rn rn | - | load
LD                                     | global load    | p rn    | - | load generic=LDS
LDL                                    | global load    | p rn    | - | load local
STG                                    | global store   | <- n    | - | store
ST                                     | global store   | <- n    | - | store generic=STS
STL                                    | global store   | <- n    | - | store local
ATOM                                   | global atomic  | p rn <- n | typed | atomic generic=ATOMS
ATOMG                                  | global atomic  | p rn <- n | typed | atomic
RED REDG                               | global reduction | <- n  | typed | atomic store
LDGSTS                                 | global copy    |         | - | store
LDGDEPBAR                              | copy_commit commit |     | -
SHFL                                   | shuffle shuffle | p r    | moved | reversed

DEPBAR                                 | counter_wait nop |       | whole
BAR                                    | barrier barrier |        | whole
UCGABAR_WAIT                           | barrier barrier | p r    | -
EXIT                                   | exit branch    |         | - | leaves
BRA JMP RET                            | branch branch  |         | - | leaves
BRX BRXU JMX                           | branch branch  |         | whole | leaves
CALL BSSY BSYNC BREAK WARPSYNC         | branch branch  |         | -
ENDCOLLECTIVE YIELD KILL BPT           | branch branch  |         | -
BMOV                                   | branch branch  | p r     | -
"""

NUMBERS = ("whole", "float", "moved", "typed", "-")
"""How an instruction may interpret its sources."""

NOT_MODELLED = ("BGMMA", "LDTRAM", "TEX", "TLD", "TLD4", "TMML", "TXD", "TXQ", "SULD", "SUST", "SUATOM", "SURED")
"""Real instructions of these architectures that the model leaves out. They must not be reported as typing errors."""


@dataclass(frozen=True, slots=True)
class Mnemonic:
    """A row: `writes` such as ("p", "rn"), `reads` with the widths of the sources, `classes` by modifier."""

    name: str
    kind: str = ""
    operation: str = ""
    classes: tuple[tuple[str, str], ...] = ()
    writes: tuple[str, ...] = ("p", "r")
    reads: tuple[str, ...] = ("1",)
    numbers: str = "-"
    notes: frozenset[str] = frozenset()
    generic: str = ""
    late: int | None = None


def rows(text: str) -> dict[str, Mnemonic]:
    """Parse lines of such a table into rows by mnemonic. Raises GpuemuError for a line that is not a row."""
    found = {}
    for line in filter(None, text.splitlines()):
        _refuse(line)
        names, treated, operands, numbers, notes = (part.split() for part in f"{line} |".split("|")[:5])
        kind, operation, *classes = treated
        writes, _, reads = " ".join(operands).partition("<-")
        said = dict(note.split("=") for note in notes if "=" in note)
        for name in names:
            found[name] = Mnemonic(
                name, kind, operation, tuple((modifier, other) for modifier, other in (c.split("=") for c in classes)),
                tuple(writes.split()), tuple(reads.split()) or ("1",), numbers[0], frozenset(notes),
                said.get("generic", ""), int(said["late"]) if "late" in said else None,
            )  # fmt: skip
    return found


def _refuse(line: str) -> None:
    """Raise GpuemuError if a line does not have the columns of a row."""
    columns = [part.split() for part in line.split("|")]
    if not 4 <= len(columns) <= 5:
        right = "expected mnemonics | unit and class | operands | numbers | notes, where notes are optional"
        raise GpuemuError.one(line, None, "row", f"{len(columns)} columns", right)
    names, treated, _, numbers, *_ = columns
    known = [kind.name.lower() for kind in Kind]
    if len(treated) < 2 or treated[0] not in known:
        right = f"expected one of {', '.join(known)}, and a class"
        raise GpuemuError.one(" ".join(names), None, "unit and class", f"'{' '.join(treated)}'", right)
    if " ".join(numbers) not in NUMBERS:
        right = f"expected {', '.join(NUMBERS[:-1])} or {NUMBERS[-1]}"
        raise GpuemuError.one(" ".join(names), None, "numbers", f"'{' '.join(numbers)}'", right)


TABLE = rows(_TABLE)


@dataclass(frozen=True, slots=True)
class Opcode:
    """An opcode such as `LDSM.16.M88.4`, split into its parts. The `row` of an unknown opcode has default operands."""

    text: str
    mnemonic: str
    modifiers: tuple[str, ...]
    row: Mnemonic

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode has any of these modifiers."""
        return any(m in self.modifiers for m in modifiers)

    @property
    def tensor_registers(self) -> int:
        """Registers that an LDTM or STTM moves for each thread: those of its shape, times N of xN."""
        times = next((int(m[1:]) for m in self.modifiers if m[:1] == "x" and m[1:].isdecimal()), 1)
        return times * (2 if self.has("16dp128bit") else 4 if self.has("16dp256bit") else 1)

    @property
    def matrices(self) -> int:
        """N of an LDSM or STSM xN, which is 1 if the text omits it; a matrix of 16x16 bytes counts as two."""
        named = next((int(m) for m in self.modifiers if m in ("1", "2", "4")), 1)
        return 2 * named if self.has("MT1616") else named


@lru_cache(maxsize=4096)
def parse_opcode(text: str) -> Opcode:
    """Parse the text of an opcode; no other code does this."""
    mnemonic, *modifiers = text.split(".")
    return Opcode(text, mnemonic, tuple(modifiers), TABLE.get(mnemonic) or Mnemonic(mnemonic))
