"""Random PTX programs: branches, loops of different length by lane, shared memory, atomics, shuffles and votes.

The twin runs one lane after the other in plain Python integers, statement by statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeAlias

from hypothesis import strategies as st

REGISTERS = 5
MASK = 2**32 - 1
Statement: TypeAlias = tuple[Any, ...]

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "xor.b32": lambda a, b: a ^ b,
    "min.u32": min,
    "max.s32": lambda a, b: max(_signed(a), _signed(b)),
    "shr.u32": lambda a, b: a >> min(b, 32),
}


def _signed(value: int) -> int:
    return value - 2**32 if value >> 31 else value


registers = st.integers(0, REGISTERS - 1)
operation = st.tuples(st.just("op"), st.sampled_from(sorted(OPERATIONS)), registers, registers, registers)
inner = st.one_of(
    operation,
    st.tuples(st.just("store"), registers),
    st.tuples(st.just("load"), registers),
    st.tuples(st.just("atomic"), registers),
)
nested = st.recursive(
    st.lists(inner, max_size=4),
    lambda blocks: st.lists(
        st.one_of(
            inner,
            st.tuples(st.just("if"), registers, registers, blocks, blocks),
            st.tuples(st.just("loop"), registers, blocks),
        ),
        max_size=4,
    ),
    max_leaves=6,
)
together = st.one_of(
    st.tuples(
        st.just("shfl"), st.sampled_from(["up", "down", "bfly", "idx"]), registers, registers, st.integers(0, 31)
    ),
    st.tuples(st.just("ballot"), registers, registers),
    st.tuples(st.just("reduce"), registers, registers),
)
programs = st.lists(st.one_of(st.tuples(st.just("block"), nested), together), min_size=1, max_size=5)


# Registers begin as odd multiples of the thread's number: of `2 * tid + 1` NVIDIA's assembler (nvJitLink 13, driver
# CUDA 13.0) takes `(r & 1) == 1` for false where a vote asks for it, so that a GPU would contradict any model.

# -- as PTX -----------------------------------------------------------------------------------------------------------


def emit(program: Sequence[Statement]) -> str:
    numbers = count()
    lines = [
        ".shared .align 4 .b8 buf[512];",
        "ld.param.u64 %rd1, [out]; mov.u32 %r20, %tid.x; shl.b32 %r21, %r20, 2;",
        "mov.u32 %r22, buf; add.u32 %r22, %r22, %r21;",
        "st.shared.u32 [%r22], %r20;",
        *(f"mad.lo.u32 %r{i}, %r20, {2 * i * i + 1}, {i};" for i in range(REGISTERS)),
    ]
    for statement in program:
        lines += _lines(statement, numbers)
    lines.append("cvt.u64.u32 %rd2, %r21; add.u64 %rd2, %rd1, %rd2;")
    lines += [f"st.global.u32 [%rd2+{4 + 256 * i}], %r{i};" for i in range(REGISTERS)]
    return "\n".join([*lines, "ret;"])


def _lines(statement: Statement, numbers: Any) -> list[str]:
    match statement:
        case ("block", body):
            return [line for one in body for line in _lines(one, numbers)]
        case ("op", name, d, a, b):
            return [f"{name} %r{d}, %r{a}, %r{b};"]
        case ("store", a):
            return [f"st.shared.u32 [%r22], %r{a};"]
        case ("load", d):
            return [f"ld.shared.u32 %r{d}, [%r22];"]
        case ("atomic", a):
            return [f"red.global.add.u32 [%rd1], %r{a};"]
        case ("if", a, b, yes, no):
            n = next(numbers)
            body_yes = [line for one in yes for line in _lines(one, numbers)]
            body_no = [line for one in no for line in _lines(one, numbers)]
            return [
                f"setp.lt.u32 %p1, %r{a}, %r{b}; @!%p1 bra NO{n};",
                *body_yes,
                f"bra END{n}; NO{n}:",
                *body_no,
                f"END{n}:",
            ]
        case ("loop", a, body):
            n = next(numbers)
            inside = [line for one in body for line in _lines(one, numbers)]
            return [
                f"{{ .reg .b32 i; .reg .pred q; and.b32 i, %r{a}, 3; LOOP: setp.eq.u32 q, i, 0; @q bra OUT;",
                *inside,
                f"sub.u32 i, i, 1; bra.uni LOOP; OUT: }} // {n}",
            ]
        case ("shfl", mode, d, a, by):
            return [f"shfl.sync.{mode}.b32 %r{d}, %r{a}, {by}, {0 if mode == 'up' else 31}, -1;"]
        case ("ballot", d, a):
            return [f"and.b32 %r30, %r{a}, 1; setp.eq.u32 %p2, %r30, 1; vote.sync.ballot.b32 %r{d}, %p2, -1;"]
        case ("reduce", d, a):
            return [f"redux.sync.max.u32 %r{d}, %r{a}, -1;"]
    raise AssertionError(statement)


# -- as Python --------------------------------------------------------------------------------------------------------


class Twin:
    def __init__(self, lanes: int) -> None:
        self.regs = [[(tid * (2 * i * i + 1) + i) & MASK for i in range(REGISTERS)] for tid in range(lanes)]
        self.slots = list(range(lanes))
        self.total = 0

    def run(self, program: Sequence[Statement]) -> None:
        for statement in program:
            if statement[0] == "block":
                for lane in range(len(self.regs)):
                    self._lane(statement[1], lane)
            else:
                for first in range(0, len(self.regs), 32):
                    self._warp(statement, first)

    def _lane(self, body: Sequence[Statement], lane: int) -> None:
        regs = self.regs[lane]
        for statement in body:
            match statement:
                case ("op", name, d, a, b):
                    regs[d] = OPERATIONS[name](regs[a], regs[b]) & MASK
                case ("store", a):
                    self.slots[lane] = regs[a]
                case ("load", d):
                    regs[d] = self.slots[lane]
                case ("atomic", a):
                    self.total = (self.total + regs[a]) & MASK
                case ("if", a, b, yes, no):
                    self._lane(yes if regs[a] < regs[b] else no, lane)
                case ("loop", a, inside):
                    for _ in range(regs[a] & 3):
                        self._lane(inside, lane)

    def _warp(self, statement: Statement, first: int) -> None:
        lanes = range(first, first + 32)
        match statement:
            case ("shfl", mode, d, a, by):
                old = [self.regs[lane][a] for lane in lanes]
                for lane in range(32):
                    source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": by}[mode]
                    self.regs[first + lane][d] = old[source] if 0 <= source < 32 else old[lane]
            case ("ballot", d, a):
                word = sum((self.regs[lane][a] & 1) << lane - first for lane in lanes)
                for lane in lanes:
                    self.regs[lane][d] = word
            case ("reduce", d, a):
                most = max(self.regs[lane][a] for lane in lanes)
                for lane in lanes:
                    self.regs[lane][d] = most
