"""Integer arithmetic, comparison, selection and moves as steps over slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .floats import FORMATS
from .isa import Modifiers, Unsupported
from .program import Instruction, Pair, Vector
from .slots import DTYPES, Array, Regs, Slots, Step, bits_of, pure

__all__ = ["ALU", "LOGIC", "Builder", "binary", "is_float", "signed_view", "unary"]

Builder: TypeAlias = Callable[[Instruction, Modifiers, Slots], Step]

_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def is_float(kind: str) -> bool:
    """Whether a type is a floating-point type, packed or not."""
    return kind.startswith(("f", "bf"))


def signed_view(kind: str) -> Any:
    """NumPy's signed type for a PTX type sN, else None."""
    return _SIGNED[bits_of(kind)] if kind.startswith("s") else None


def _refuse(m: Modifiers, *names: str) -> None:
    for name in names:
        if m.get(name):
            raise Unsupported(f".{m[name]} on integers")


def binary(i: Instruction, s: Slots, kind: str, function: Callable[[Array, Array], Array]) -> Step:
    """A step for d = function(a, b) on values of one type; the function sees signed arrays for a signed type."""
    d, a, b = s.write(i.operands[0], bits_of(kind)), s.read(i.operands[1], kind), s.read(i.operands[2], kind)
    view = signed_view(kind)
    if view is None:

        def full(regs: Regs) -> None:
            regs[d] = function(regs[a], regs[b])
    else:
        plain = DTYPES[bits_of(kind)]

        def full(regs: Regs) -> None:
            regs[d] = function(regs[a].view(view), regs[b].view(view)).view(plain)

    return pure(full, d)


def unary(i: Instruction, s: Slots, kind: str, function: Callable[[Array], Array]) -> Step:
    """A step for d = function(a) on unsigned arrays of one type."""
    d, a = s.write(i.operands[0], bits_of(kind)), s.read(i.operands[1], kind)

    def full(regs: Regs) -> None:
        regs[d] = function(regs[a])

    return pure(full, d)


# -- arithmetic -------------------------------------------------------------------------------------------------------


def integer_add(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """add, sub without their float forms; .sat is that of s32."""
    _refuse(m, "round", "ftz")
    kind = m["type"]
    if not m["sat"]:  # the bits do not depend on the sign
        return binary(i, s, "u" + kind[1:], np.add if i.pieces[0] == "add" else np.subtract)
    if kind != "s32":
        raise Unsupported(f".sat.{kind}")
    sign = 1 if i.pieces[0] == "add" else -1

    def saturated(a: Array, b: Array) -> Array:
        exact: Array = a.astype(np.int64) + sign * b.astype(np.int64)
        return exact.clip(-(2**31), 2**31 - 1).astype(np.int32)

    return binary(i, s, kind, saturated)


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the product, for signed or unsigned arrays of 16, 32 or 64 bits."""
    bits = 8 * a.itemsize
    if bits < 64:
        wide = _SIGNED[2 * bits] if a.dtype.kind == "i" else DTYPES[2 * bits]
        product: Array = a.astype(wide) * b.astype(wide)
        return (product >> bits).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    result: Array = high.view(a.dtype)
    return result


def _product(m: Modifiers) -> tuple[Callable[[Array, Array], Array], int]:
    """The product of a `half`, and the width of its result."""
    kind, bits = m["type"], bits_of(m["type"])
    if m["half"] == "lo":
        return np.multiply, bits
    if m["half"] == "hi":
        return high_product, bits
    if m["half"] != "wide" or bits == 64:
        raise Unsupported(f"a product of .{kind} without .lo, .hi or .wide")
    wide = _SIGNED[2 * bits] if signed_view(kind) else DTYPES[2 * bits]
    return lambda a, b: a.astype(wide) * b.astype(wide), 2 * bits


def integer_mul(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """mul.lo, .hi, .wide, and mad, which adds a third operand of the result's width."""
    _refuse(m, "round", "ftz", "sat")
    kind = m["type"]
    function, bits = _product(m)
    if m["half"] == "lo":
        kind = "u" + kind[1:]
    d, a, b = s.write(i.operands[0], bits), s.read(i.operands[1], kind), s.read(i.operands[2], kind)
    view, plain = signed_view(kind) or DTYPES[bits_of(kind)], DTYPES[bits]
    if i.pieces[0] == "mul":

        def full(regs: Regs) -> None:
            regs[d] = function(regs[a].view(view), regs[b].view(view)).view(plain)
    else:
        c = s.read(i.operands[3], f"b{bits}")

        def full(regs: Regs) -> None:
            regs[d] = function(regs[a].view(view), regs[b].view(view)).view(plain) + regs[c]

    return pure(full, d)


def _truncated(a: Array, b: Array, *, remainder: bool) -> Array:
    """Division toward zero; by zero it gives all ones (remainder: the dividend), where PTX leaves it open."""
    plain = DTYPES[8 * a.itemsize]
    x, y = (np.where(v < 0, -v, v).view(plain) if v.dtype.kind == "i" else v for v in (a, b))
    zero = y == 0
    y = np.where(zero, plain(1), y)
    result = x % y if remainder else x // y
    if a.dtype.kind == "i":
        negative = a < 0 if remainder else (a < 0) != (b < 0)
        result = np.where(negative, -result, result)
    return np.where(zero, a.view(plain) if remainder else plain(2 ** (8 * a.itemsize) - 1), result).view(a.dtype)


def integer_div(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """div and rem of integers."""
    _refuse(m, "approx", "ftz")
    remainder = i.pieces[0] == "rem"
    return binary(i, s, m["type"], lambda a, b: _truncated(a, b, remainder=remainder))


def integer_minmax(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """min and max of integers."""
    _refuse(m, "ftz", "nan")
    return binary(i, s, m["type"], np.minimum if i.pieces[0] == "min" else np.maximum)


def _neg(i: Instruction, m: Modifiers, s: Slots) -> Step:
    _refuse(m, "ftz")
    return unary(i, s, m["type"], np.negative)


def _abs(i: Instruction, m: Modifiers, s: Slots) -> Step:
    _refuse(m, "ftz")
    view = signed_view(m["type"])
    return unary(i, s, m["type"], lambda a: np.abs(a.view(view)).view(a.dtype))


# -- comparison, selection, moves -------------------------------------------------------------------------------------

LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""And, or, xor by name."""

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    **dict.fromkeys(("lt", "lo"), np.less),
    **dict.fromkeys(("le", "ls"), np.less_equal),
    **dict.fromkeys(("gt", "hi"), np.greater),
    **dict.fromkeys(("ge", "hs"), np.greater_equal),
}


def _either_nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


_FLOAT_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    **{name: _COMPARE[name] for name in ("eq", "lt", "le", "gt", "ge")},
    "ne": lambda a, b: (a < b) | (a > b),  # false for NaN, unlike neu
    "equ": lambda a, b: (a == b) | _either_nan(a, b),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~_either_nan(a, b),
    "nan": _either_nan,
}


def _comparison(m: Modifiers, kind: str) -> Callable[[Array, Array], Array]:
    """The comparison of two arrays of bits."""
    if not is_float(kind):
        if m["compare"] not in _COMPARE:
            raise Unsupported(f".{m['compare']}.{kind}")
        function, view = _COMPARE[m["compare"]], signed_view(kind)
        if view is None or m["compare"] in ("eq", "ne"):
            return function
        return lambda a, b: function(a.view(view), b.view(view))
    if kind not in FORMATS or m["compare"] not in _FLOAT_COMPARE:
        raise Unsupported(f".{m['compare']}.{kind}")
    compare, form = _FLOAT_COMPARE[m["compare"]], FORMATS[kind]
    if m["ftz"]:
        return lambda a, b: compare(form.double(form.flush(a)), form.double(form.flush(b)))
    return lambda a, b: compare(form.double(a), form.double(b))


def _setp(i: Instruction, m: Modifiers, s: Slots) -> Step:
    kind = m["type"]
    first = i.operands[0]
    d = s.write(first.first if isinstance(first, Pair) else first, 1)
    e = s.write(first.second, 1) if isinstance(first, Pair) else None
    a, b = s.read(i.operands[1], kind), s.read(i.operands[2], kind)
    function = _comparison(m, kind)
    if not m["bool"] and e is None and len(i.operands) == 3:

        def simple(regs: Regs) -> None:
            regs[d] = function(regs[a], regs[b])

        return pure(simple, d)
    if bool(m["bool"]) != (len(i.operands) == 4):
        raise Unsupported("setp with these operands")
    join = LOGIC[m["bool"]] if m["bool"] else None
    c, negated = s.predicate(i.operands[3]) if join else (0, False)

    def full(regs: Regs) -> None:
        result = function(regs[a], regs[b])
        other = ~result
        if join is not None:
            third = ~regs[c] if negated else regs[c]
            result, other = join(result, third), join(other, third)
        regs[d] = result
        if e is not None:
            regs[e] = other

    return pure(full, d) if e is None else pure(full, d, e)


def _selp(i: Instruction, m: Modifiers, s: Slots) -> Step:
    kind = m["type"]
    d, a, b = s.write(i.operands[0], bits_of(kind)), s.read(i.operands[1], kind), s.read(i.operands[2], kind)
    p, negated = s.predicate(i.operands[3])
    if negated:
        a, b = b, a

    def full(regs: Regs) -> None:
        regs[d] = np.where(regs[p], regs[a], regs[b])

    return pure(full, d)


_CLOCKS = ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")


def _mov(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target, source = i.operands
    kind, bits = m["type"], bits_of(m["type"])
    if isinstance(target, Vector):
        return _unpack(target, s.read(source, kind), bits, s)
    if isinstance(source, Vector):
        return _pack(s.write(target, bits), source, bits, s)
    d, a = s.write(target, bits), s.read(source, kind)
    name = getattr(source, "name", "")
    if name in _CLOCKS:
        high, plain = name.endswith("_hi"), DTYPES[bits]

        def clock(regs: Regs) -> None:
            ticks = regs[0].machine.read_clock()
            regs[d] = np.full(32, (ticks >> 32 if high else ticks) % 2**bits, plain)

        return pure(clock, d)

    def full(regs: Regs) -> None:
        regs[d] = regs[a]

    return pure(full, d)


def _parts(count: int, bits: int) -> str:
    if count not in (2, 4) or bits // count not in (8, 16, 32, 64):
        raise Unsupported(f"{count} parts of {bits} bits")
    return f"b{bits // count}"


def _pack(d: int, source: Vector, bits: int, s: Slots) -> Step:
    kind = _parts(len(source.items), bits)
    slots = [s.read(item, kind) for item in source.items]
    plain = DTYPES[bits]
    if bits == 128:

        def full(regs: Regs) -> None:
            words = np.stack([regs[slot] for slot in slots], axis=1).view(np.uint64)
            regs[d] = np.ascontiguousarray(words.T)
    else:

        def full(regs: Regs) -> None:
            regs[d] = np.stack([regs[slot] for slot in slots], axis=1).view(plain).reshape(-1)

    return pure(full, d)


def _unpack(target: Vector, a: int, bits: int, s: Slots) -> Step:
    count = len(target.items)
    part = DTYPES[bits_of(_parts(count, bits))]
    slots = [s.write(item, bits // count) for item in target.items]

    def full(regs: Regs) -> None:
        words = np.ascontiguousarray(regs[a].T) if bits == 128 else regs[a]
        parts = words.view(part).reshape(-1, count)
        for index, slot in enumerate(slots):
            regs[slot] = parts[:, index].copy()

    return pure(full, *slots)


ALU: dict[str, Builder] = {
    "neg": _neg,
    "abs": _abs,
    "setp": _setp,
    "selp": _selp,
    "mov": _mov,
}
"""Operations on integers; what they share by name with floats is split in arithmetic.py."""
