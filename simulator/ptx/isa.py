"""The operations that the machine knows: form, number of operands, first architecture, unit, section of the PTX ISA.

A form is what may follow the operation's name, in order: words of GROUPS (`?`: may be absent; `name=group` gives it
another name), or literally `.word`. Whatever does not fit is unsupported and reported as such, never guessed.
semantics.py has the same keys. Sections are those of PTX ISA 9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from .program import Instruction

__all__ = ["GROUPS", "OPERATIONS", "Modifiers", "Operation", "Unit", "Unsupported", "match"]

Modifiers: TypeAlias = Mapping[str, str]
"""What stood for each group of the form, '' if it was absent."""


class Unsupported(Exception):
    """The machine does not know an instruction, or this form of it; the text says what."""


class Unit(Enum):
    """Who executes an operation."""

    ALU = "alu"
    CONTROL = "control"
    MEMORY = "memory"
    WARP = "warp"
    BARRIER = "barrier"
    MBARRIER = "mbarrier"
    BULK = "bulk copy"
    TENSOR_CORE = "tensor core"


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table; `operands` is the least and the greatest number, `sm` the first architecture."""

    form: str
    operands: tuple[int, int]
    sm: int
    unit: Unit
    section: str


_INT = "u16 s16 u32 s32 u64 s64"
_FLOAT = "f16 f16x2 bf16 bf16x2 f32 f64 f32x2"
_BITS = "b8 b16 b32 b64 b128"

GROUPS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "type": f"pred {_BITS} u8 s8 {_INT} {_FLOAT} tf32 e4m3x2 e5m2x2",
        "round": "rn rz rm rp rna rni rzi rmi rpi",
        "ftz": "ftz",
        "sat": "sat",
        "relu": "relu satfinite",
        "nan": "NaN",
        "half": "lo hi wide",
        "approx": "approx full rn rz rm rp",
        "direction": "l r",
        "wrap": "wrap clamp",
        "shiftamt": "shiftamt",
        "compare": "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan",
        "bool": "and or xor",
        "mode": "f4e b4e rc8 ecl ecr rc16",
        "to": "to",
        "order": "weak volatile relaxed acquire release acq_rel",
        "scope": "cta cluster gpu sys",
        "space": "global shared shared::cta shared::cluster param param::entry const local",
        "nc": "nc",
        "cache": "ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last "
        "L1::no_allocate",
        "hint": "L2::cache_hint",
        "prefetch": "L2::64B L2::128B L2::256B",
        "vector": "v2 v4",
        "atomic": "add inc dec min max and or xor exch cas",
        "noftz": "noftz",
        "uni": "uni",
        "aligned": "aligned",
        "vote": "all any uni ballot",
        "shuffle": "up down bfly idx",
        "reduce": "add min max and or xor",
        "popc": "popc and or",
        "cluster_order": "release relaxed acquire",
        "expect": "expect_tx",
        "no_complete": "noComplete",
        "parity": "parity",
        "semantics": "release relaxed acquire",
        "barrier_space": "shared shared::cta shared::cluster",
        "dims": "1d 2d 3d 4d 5d",
        "tile": "tile",
        "destination": "shared::cta shared::cluster global",
        "origin": "global shared::cta",
        "complete": "mbarrier::complete_tx::bytes bulk_group",
        "multicast": "multicast::cluster",
        "everywhere": "multicast::cluster::all",
        "group": "cta_group::1 cta_group::2",
        "kind": "kind::f16 kind::tf32 kind::f8f6f4 kind::i8",
        "collector": "collector::a::fill collector::a::use collector::a::lastuse collector::a::discard",
        "mshape": " ".join(f"m64n{n}k16" for n in range(8, 257, 8)),
        "trans": "trans",
        "shape": "32x32b 16x64b 16x128b 16x256b 16x32bx2",
        "num": "x1 x2 x4 x8 x16 x32 x64 x128",
        "pack": "pack::16b unpack::16b",
        "read": "read",
        "inc": "inc dec",
        "level": "global param tensormap L1 L2 const local",
        "shared_word": "shared::cta shared",
    }.items()
}


def _rows(unit: Unit, section: str, sm: int, *rows: tuple[str, str, int] | tuple[str, str, int, int]) -> None:
    for name, form, least, *most in rows:
        OPERATIONS[name] = Operation(form, (least, most[0] if most else least), sm, unit, section)


OPERATIONS: dict[str, Operation] = {}

_rows(
    Unit.ALU,
    "9.7.1, 9.7.3, 9.7.4 arithmetic",
    20,
    ("add", "round? ftz? sat? type", 3),
    ("sub", "round? ftz? sat? type", 3),
    ("mul", "half? round? ftz? sat? type", 3),
    ("mad", "half? round? ftz? sat? type", 4),
    ("fma", "round ftz? sat? type", 4),
    ("div", "approx? ftz? type", 3),
    ("rem", "type", 3),
    ("neg", "ftz? type", 2),
    ("abs", "ftz? type", 2),
    ("min", "ftz? nan? type", 3),
    ("max", "ftz? nan? type", 3),
    ("rcp", "approx ftz? type", 2),
    ("sqrt", "approx ftz? type", 2),
    ("rsqrt", ".approx ftz? type", 2),
    ("ex2", ".approx ftz? type", 2),
    ("lg2", ".approx ftz? type", 2),
    ("tanh", ".approx type", 2),
    ("popc", "type", 2),
    ("clz", "type", 2),
    ("brev", "type", 2),
    ("bfind", "shiftamt? type", 2),
    ("bfe", "type", 4),
    ("bfi", "type", 5),
)
_rows(
    Unit.ALU,
    "9.7.8 logic and shift",
    20,
    ("and", "type", 3),
    ("or", "type", 3),
    ("xor", "type", 3),
    ("not", "type", 2),
    ("cnot", "type", 2),
    ("shl", "type", 3),
    ("shr", "type", 3),
    ("shf", "direction wrap type", 4),
    ("lop3", "type", 5),
)
_rows(
    Unit.ALU,
    "9.7.6, 9.7.7 comparison and selection",
    20,
    ("setp", "compare bool? ftz? type", 3, 4),
    ("selp", "type", 4),
)
_rows(
    Unit.ALU,
    "9.7.9 moves and conversions",
    20,
    ("mov", "type", 2),
    ("prmt", "type mode?", 4),
    ("cvt", "round? ftz? sat? relu? type from=type", 2, 3),
    ("cvta", "to? space bits=type", 2),
    ("isspacep", "space", 2),
)
_rows(Unit.ALU, "9.7.9 cluster addresses", 90, ("mapa", "space? type", 3), ("getctarank", "space? type", 2))
_rows(
    Unit.MEMORY,
    "9.7.9 loads and stores",
    20,
    ("ld", "order? scope? space? nc? cache? hint? prefetch? vector? type", 2, 3),
    ("st", "order? scope? space? cache? hint? vector? type", 2, 3),
    ("prefetch", "level? cache=level?", 1),
    ("prefetchu", ".L1", 1),
)
_rows(
    Unit.MEMORY,
    "9.7.13 atomics",
    20,
    ("atom", "order? scope? space? op=atomic noftz? type", 3, 4),
    ("red", "order? scope? space? op=atomic noftz? type", 2),
)
_rows(
    Unit.MEMORY,
    "9.7.13.4 fences",
    20,
    ("membar", "*", 0),
    ("fence", "*", 0, 2),
)
_rows(
    Unit.CONTROL,
    "9.7.12, 9.7.19 control flow and miscellaneous",
    20,
    ("bra", "uni?", 1),
    ("brx.idx", "uni?", 2),
    ("ret", "uni?", 0),
    ("exit", "", 0),
    ("trap", "", 0),
    ("nanosleep", "type", 1),
    ("setmaxnreg", "inc .sync .aligned type", 1),
    ("griddepcontrol.launch_dependents", "", 0),
    ("griddepcontrol.wait", "", 0),
)
_rows(
    Unit.WARP,
    "9.7.9, 9.7.13 warp operations",
    30,
    ("shfl.sync", "shuffle .b32", 5),
    ("vote.sync", "vote type", 3),
    ("match.any.sync", "type", 3),
    ("match.all.sync", "type", 3),
    ("redux.sync", "reduce type", 3),
    ("activemask", ".b32", 1),
    ("elect.sync", "", 2),
    ("bar.warp.sync", "", 1),
)
_rows(
    Unit.BARRIER,
    "9.7.13.1, 9.7.13.3 barriers",
    20,
    ("bar.sync", "", 1, 2),
    ("bar.arrive", "", 2),
    ("bar.red", "popc type", 3, 4),
    ("bar.cta.sync", "", 1, 2),
    ("bar.cta.arrive", "", 2),
    ("barrier.sync", "aligned?", 1, 2),
    ("barrier.arrive", "aligned?", 2),
    ("barrier.cta.sync", "aligned?", 1, 2),
    ("barrier.cta.arrive", "aligned?", 2),
    ("barrier.cluster.arrive", "cluster_order? aligned?", 0),
    ("barrier.cluster.wait", "cluster_order? aligned?", 0),
)
_rows(
    Unit.MBARRIER,
    "9.7.13.15 mbarrier",
    80,
    ("mbarrier.init", "barrier_space? .b64", 2),
    ("mbarrier.inval", "barrier_space? .b64", 1),
    ("mbarrier.expect_tx", "semantics? scope? barrier_space? .b64", 2),
    ("mbarrier.complete_tx", "semantics? scope? barrier_space? .b64", 2),
    ("mbarrier.arrive", "expect? no_complete? semantics? scope? barrier_space? .b64", 1, 3),
    ("mbarrier.arrive_drop", "expect? no_complete? semantics? scope? barrier_space? .b64", 1, 3),
    ("mbarrier.test_wait", "parity? semantics? scope? barrier_space? .b64", 3),
    ("mbarrier.try_wait", "parity? semantics? scope? barrier_space? .b64", 3, 4),
    ("mbarrier.pending_count", ".b64", 2),
)
_rows(
    Unit.BULK,
    "9.7.9.25 bulk copies",
    90,
    ("cp.async.bulk", "destination origin complete multicast? hint?", 3, 6),
    ("cp.async.bulk.commit_group", "", 0),
    ("cp.async.bulk.wait_group", "read?", 1),
    ("cp.async.bulk.prefetch", ".L2 .global hint?", 2, 3),
)
_rows(
    Unit.BULK,
    "9.7.9.27 tensor copies",
    90,
    ("cp.async.bulk.tensor", "dims destination origin tile? complete multicast? group? hint?", 2, 5),
    ("cp.async.bulk.prefetch.tensor", "dims .L2 .global tile? hint?", 1, 2),
)

_rows(
    Unit.TENSOR_CORE,
    "9.7.16 tcgen05",
    100,
    ("tcgen05.alloc", "group .sync .aligned shared_word? .b32", 2),
    ("tcgen05.dealloc", "group .sync .aligned .b32", 2),
    ("tcgen05.relinquish_alloc_permit", "group .sync .aligned", 0),
    ("tcgen05.mma", "group kind collector?", 5, 7),
    ("tcgen05.commit", "group .mbarrier::arrive::one barrier_space? multicast? .b64", 1, 2),
    ("tcgen05.ld", ".sync .aligned shape num pack? .b32", 2, 3),
    ("tcgen05.st", ".sync .aligned shape num pack? .b32", 2, 3),
    ("tcgen05.wait::ld", ".sync .aligned", 0),
    ("tcgen05.wait::st", ".sync .aligned", 0),
    ("tcgen05.fence::before_thread_sync", "", 0),
    ("tcgen05.fence::after_thread_sync", "", 0),
)

_rows(
    Unit.TENSOR_CORE,
    "9.7.15 wgmma",
    90,
    ("wgmma.fence", ".sync .aligned", 0),
    ("wgmma.mma_async", ".sync .aligned mshape d=type a=type b=type", 7, 8),
    ("wgmma.commit_group", ".sync .aligned", 0),
    ("wgmma.wait_group", ".sync .aligned", 1),
)
_rows(
    Unit.WARP,
    "9.7.14.5 matrices",
    75,
    ("ldmatrix", ".sync .aligned .m8n8 num trans? barrier_space? type", 2),
    ("stmatrix", ".sync .aligned .m8n8 num trans? barrier_space? type", 2),
)

_rows(
    Unit.CONTROL,
    "9.7.13.17, 9.7.13.18 cluster launch control",
    100,
    ("clusterlaunchcontrol.try_cancel", ".async shared_word? .mbarrier::complete_tx::bytes everywhere? .b128", 2),
    ("clusterlaunchcontrol.query_cancel.is_canceled", ".pred .b128", 2),
    ("clusterlaunchcontrol.query_cancel.get_first_ctaid", "vector .b32 .b128", 2),
    ("clusterlaunchcontrol.query_cancel.get_first_ctaid::x", ".b32 .b128", 2),
    ("clusterlaunchcontrol.query_cancel.get_first_ctaid::y", ".b32 .b128", 2),
    ("clusterlaunchcontrol.query_cancel.get_first_ctaid::z", ".b32 .b128", 2),
)


@lru_cache(maxsize=4096)
def _match_pieces(pieces: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    for length in range(min(5, len(pieces)), 0, -1):
        name = ".".join(pieces[:length])
        if name in OPERATIONS:
            modifiers = _match_form(OPERATIONS[name].form, pieces[length:])
            if modifiers is None:
                raise Unsupported(f"this form of {name}")
            return name, modifiers
    raise Unsupported("the operation")


def _match_form(form: str, pieces: tuple[str, ...]) -> dict[str, str] | None:
    """What stands for each word of a form, or None if the pieces do not follow it."""
    if form == "*":
        return {}
    found: dict[str, str] = {}
    at = 0
    for word in form.split():
        piece = pieces[at] if at < len(pieces) else None
        if word.startswith("."):
            if piece != word[1:]:
                return None
            at += 1
            continue
        name, _, group = word.rstrip("?").partition("=")
        if piece in GROUPS[group or name]:
            found[name] = str(piece)
            at += 1
        elif word.endswith("?"):
            found[name] = ""
        else:
            return None
    return found if at == len(pieces) else None


def match(instruction: Instruction) -> tuple[str, Modifiers]:
    """The operation's name and its modifiers. Raises Unsupported for what the table does not have."""
    name, modifiers = _match_pieces(instruction.pieces)
    least, most = OPERATIONS[name].operands
    if not least <= len(instruction.operands) <= most:
        raise Unsupported(f"{name} with {len(instruction.operands)} operands")
    return name, modifiers
