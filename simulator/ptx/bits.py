"""Operations on the bits of integers: logic, shifts, fields, counts, permutations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .alu import LOGIC, Builder, binary, signed_view, unary
from .isa import Modifiers, Unsupported
from .program import Immediate, Instruction, Operand
from .slots import DTYPES, Array, Regs, Slots, Step, bits_of, pure

__all__ = ["BITS"]


def leading_zeros(a: Array) -> Array:
    """Leading zeros of 32- or 64-bit words, as uint32."""
    if a.itemsize == 8:
        high, low = (a >> np.uint64(32)).astype(np.uint32), a.astype(np.uint32)
        return np.where(high != 0, leading_zeros(high), np.uint32(32) + leading_zeros(low))
    return (32 - np.frexp(a.astype(np.float64))[1]).astype(np.uint32)


def _reversed(a: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(a.dtype).reshape(-1)


def _count(function: Callable[[Array], Array]) -> Builder:
    def build(i: Instruction, m: Modifiers, s: Slots) -> Step:
        d, a = s.write(i.operands[0], 32), s.read(i.operands[1], m["type"])

        def full(regs: Regs) -> None:
            regs[d] = function(regs[a])

        return pure(full, d)

    return build


def _bfind(i: Instruction, m: Modifiers, s: Slots) -> Step:
    d, a, kind = s.write(i.operands[0], 32), s.read(i.operands[1], m["type"]), m["type"]
    view, bits, shift = signed_view(kind), bits_of(kind), bool(m["shiftamt"])

    def full(regs: Regs) -> None:
        value = regs[a]
        if view is not None:
            value = np.where(value.view(view) < 0, ~value, value)
        zeros = leading_zeros(value)
        regs[d] = np.where(value == 0, np.uint32(2**32 - 1), zeros if shift else np.uint32(bits - 1) - zeros)

    return pure(full, d)


def _bfe(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """Bits [pos, pos + len) of a; beyond the most significant bit: zeros, or for s32 and s64 copies of the sign."""
    kind, bits = m["type"], bits_of(m["type"])
    d, a = s.write(i.operands[0], bits), s.read(i.operands[1], kind)
    pos, length = s.read(i.operands[2], "u32"), s.read(i.operands[3], "u32")
    plain, view = DTYPES[bits], signed_view(kind)

    def full(regs: Regs) -> None:
        p, n = regs[pos] & np.uint32(255), regs[length] & np.uint32(255)
        value = shift_right(regs[a] if view is None else regs[a].view(view), p)
        kept = np.minimum(n, np.uint32(bits)).astype(plain)
        if view is None:
            mask = np.where(kept >= bits, plain(2**bits - 1), (plain(1) << (kept % plain(bits))) - plain(1))
            regs[d] = value & mask
            return
        room = plain(bits) - kept
        top: Array = shift_left(value.view(plain), room.astype(np.uint32)).view(view)
        regs[d] = np.where(n == 0, plain(0), shift_right(top, room.astype(np.uint32)).view(plain))

    return pure(full, d)


def _bfi(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """Bits [pos, pos + len) of b replaced by the low bits of a."""
    kind, bits = m["type"], bits_of(m["type"])
    d, a, b = s.write(i.operands[0], bits), s.read(i.operands[1], kind), s.read(i.operands[2], kind)
    pos, length = s.read(i.operands[3], "u32"), s.read(i.operands[4], "u32")
    plain = DTYPES[bits]

    def full(regs: Regs) -> None:
        p, n = regs[pos] & np.uint32(255), regs[length] & np.uint32(255)
        ones = ~shift_left(np.full(len(p), 2**bits - 1, plain), n)
        mask = shift_left(ones, p)
        regs[d] = (regs[b] & ~mask) | (shift_left(regs[a], p) & mask)

    return pure(full, d)


def shift_left(a: Array, amount: Array) -> Array:
    """a << amount, zero from the width on."""
    bits = 8 * a.itemsize
    result: Array = np.where(amount >= bits, a.dtype.type(0), a << (amount % np.uint32(bits)).astype(a.dtype))
    return result


def shift_right(a: Array, amount: Array) -> Array:
    """a >> amount, arithmetic for signed arrays; from the width on all zeros or all signs. Returns unsigned."""
    bits = 8 * a.itemsize
    plain = DTYPES[bits]
    if a.dtype.kind == "i":
        shifted: Array = (a >> np.minimum(amount, np.uint32(bits - 1)).astype(a.dtype)).view(plain)
        return shifted
    result: Array = np.where(amount >= bits, plain(0), a >> (amount % np.uint32(bits)).astype(a.dtype))
    return result


def _shift(i: Instruction, m: Modifiers, s: Slots) -> Step:
    kind, bits, amount = m["type"], bits_of(m["type"]), i.operands[2]
    d, a, n = s.write(i.operands[0], bits), s.read(i.operands[1], kind), s.read(amount, "u32")
    left, view = i.pieces[0] == "shl", signed_view(kind) or DTYPES[bits]
    if isinstance(amount, Immediate) and 0 <= amount.value < bits and (left or not signed_view(kind)):
        shift, by = np.left_shift if left else np.right_shift, s.constant(amount.value, bits)

        def full(regs: Regs) -> None:
            regs[d] = shift(regs[a], regs[by])
    elif left:

        def full(regs: Regs) -> None:
            regs[d] = shift_left(regs[a], regs[n])
    else:

        def full(regs: Regs) -> None:
            regs[d] = shift_right(regs[a].view(view), regs[n])

    return pure(full, d)


def _funnel(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """shf: a 64-bit shift of {b, a}; the upper word (left) or the lower (right)."""
    if m["type"] != "b32":
        raise Unsupported(f".{m['type']}")
    d = s.write(i.operands[0], 32)
    a, b, c = (s.read(operand, "b32") for operand in i.operands[1:])
    wrap, left, half = m["wrap"] == "wrap", m["direction"] == "l", np.uint64(32)

    def full(regs: Regs) -> None:
        n = regs[c] & np.uint32(31) if wrap else np.minimum(regs[c], np.uint32(32))
        both = (regs[b].astype(np.uint64) << half) | regs[a]
        regs[d] = (((both << n.astype(np.uint64)) >> half) if left else both >> n.astype(np.uint64)).astype(np.uint32)

    return pure(full, d)


def _logic(i: Instruction, m: Modifiers, s: Slots) -> Step:
    return binary(i, s, m["type"], LOGIC[i.pieces[0]])


def _not(i: Instruction, m: Modifiers, s: Slots) -> Step:
    return unary(i, s, m["type"], np.invert)


def _cnot(i: Instruction, m: Modifiers, s: Slots) -> Step:
    return unary(i, s, m["type"], lambda a: (a == 0).astype(a.dtype))


def _lop3(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """Any function of three bits: bit 4a+2b+c of the table is its value."""
    if m["type"] != "b32":
        raise Unsupported(f".{m['type']}")
    d = s.write(i.operands[0], 32)
    slots = [s.read(operand, "b32") for operand in i.operands[1:4]]
    table = _literal(i.operands[4])

    def full(regs: Regs) -> None:
        a, b, c = (regs[slot] for slot in slots)
        result = np.zeros_like(a)
        for index in range(8):
            if table >> index & 1:
                result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        regs[d] = result

    return pure(full, d)


def _literal(operand: Operand) -> int:
    value = getattr(operand, "value", None)
    if not isinstance(value, int):
        raise Unsupported("an operand that is not an immediate")
    return value


def _prmt(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """Bytes of {b, a} picked by the nibbles of c; a nibble's top bit asks for the byte's sign instead."""
    if m["mode"] or m["type"] != "b32":
        raise Unsupported(f".{m['mode'] or m['type']}")
    d = s.write(i.operands[0], 32)
    a, b, c = (s.read(operand, "b32") for operand in i.operands[1:])

    def full(regs: Regs) -> None:
        both = np.stack([regs[a], regs[b]], axis=1).view(np.uint8)
        nibbles = (regs[c][:, None] >> np.array([0, 4, 8, 12], np.uint32)) & np.uint32(15)
        picked = np.take_along_axis(both, (nibbles & np.uint32(7)).astype(np.intp), axis=1)
        sign = np.where(picked & 128, np.uint8(255), np.uint8(0))
        regs[d] = np.where(nibbles & 8, sign, picked).astype(np.uint8).view(np.uint32).reshape(-1)

    return pure(full, d)


BITS: dict[str, Builder] = {
    "popc": _count(lambda a: np.bitwise_count(a).astype(np.uint32)),
    "clz": _count(leading_zeros),
    "brev": lambda i, m, s: unary(i, s, m["type"], _reversed),
    "bfind": _bfind,
    "bfe": _bfe,
    "bfi": _bfi,
    **dict.fromkeys(LOGIC, _logic),
    "not": _not,
    "cnot": _cnot,
    **dict.fromkeys(("shl", "shr"), _shift),
    "shf": _funnel,
    "lop3": _lop3,
    "prmt": _prmt,
}
