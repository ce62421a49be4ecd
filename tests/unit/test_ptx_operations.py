"""Every scalar operation against a twin in plain Python integers, written from the PTX ISA and not from our code."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_kit import HEADER, apply, apply_entry, assemble

Twin = Callable[..., int]


def signed(value: int, bits: int) -> int:
    value %= 2**bits
    return value - 2**bits if value >> (bits - 1) else value


def typed(kind: str) -> Callable[[int], int]:
    bits = int(kind[1:])
    return (lambda v: signed(v, bits)) if kind[0] == "s" else lambda v: v % 2**bits


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bfe(kind: str) -> Twin:
    bits = int(kind[1:])

    def twin(a: int, pos: int, length: int) -> int:
        """The loop of the PTX ISA, 9.7.1."""
        pos, length, msb = pos & 255, length & 255, bits - 1
        sign = 0 if kind[0] == "u" or length == 0 else (a >> min(pos + length - 1, msb)) & 1
        d = 0
        for i in range(bits):
            d |= ((a >> (pos + i)) & 1 if i < length and pos + i <= msb else sign) << i
        return d

    return twin


def bfi(bits: int) -> Twin:
    def twin(a: int, b: int, pos: int, length: int) -> int:
        pos, length, f = pos & 255, length & 255, b
        for i in range(length):
            if pos + i >= bits:
                break
            f = (f & ~(1 << (pos + i))) | ((a >> i) & 1) << (pos + i)
        return f

    return twin


def prmt(a: int, b: int, c: int) -> int:
    data, d = a | b << 32, 0
    for i in range(4):
        nibble = (c >> 4 * i) & 15
        byte = (data >> 8 * (nibble & 7)) & 255
        d |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * i
    return d


def funnel(left: bool, wrap: bool) -> Twin:
    def twin(a: int, b: int, c: int) -> int:
        n = c & 31 if wrap else min(c, 32)
        both = b << 32 | a
        return (both << n) >> 32 if left else both >> n

    return twin


def lop3(table: int) -> Twin:
    def twin(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))

    return twin


def integer_rows(kind: str) -> dict[str, tuple[str, tuple[int, ...], int, Twin]]:
    """By name: template, widths of the operands, width of the result, twin on unsigned words."""
    bits, t = int(kind[1:]), typed(kind)
    two, three = (bits, bits), (bits, bits, bits)
    rows: dict[str, tuple[str, tuple[int, ...], int, Twin]] = {}

    def row(name: str, operands: str, widths: tuple[int, ...], width: int, twin: Twin) -> None:
        rows[f"{name}.{kind}"] = (f"{name}.{kind} {{d}}, {operands};", widths, width, twin)

    row("add", "{0}, {1}", two, bits, lambda a, b: a + b)
    row("sub", "{0}, {1}", two, bits, lambda a, b: a - b)
    row("mul.lo", "{0}, {1}", two, bits, lambda a, b: a * b)
    row("mul.hi", "{0}, {1}", two, bits, lambda a, b: t(a) * t(b) >> bits)
    row("mad.lo", "{0}, {1}, {2}", three, bits, lambda a, b, c: a * b + c)
    row("mad.hi", "{0}, {1}, {2}", three, bits, lambda a, b, c: (t(a) * t(b) >> bits) + c)
    row("min", "{0}, {1}", two, bits, lambda a, b: min(t(a), t(b)))
    row("max", "{0}, {1}", two, bits, lambda a, b: max(t(a), t(b)))
    row("div", "{0}, {1}", two, bits, lambda a, b: quotient(t(a), t(b)))
    row("rem", "{0}, {1}", two, bits, lambda a, b: t(a) - quotient(t(a), t(b)) * t(b))
    row("shr", "{0}, {1}", (bits, 32), bits, lambda a, n: t(a) >> min(n, bits))
    if bits < 64:
        row("mul.wide", "{0}, {1}", two, 2 * bits, lambda a, b: t(a) * t(b))
        row("mad.wide", "{0}, {1}, {2}", (bits, bits, 2 * bits), 2 * bits, lambda a, b, c: t(a) * t(b) + c)
    if bits > 16:
        row("bfe", "{0}, {1}, {2}", (bits, 32, 32), bits, bfe(kind))
        row("bfind", "{0}", (bits,), 32, lambda a: (t(a) if t(a) >= 0 else ~t(a)).bit_length() - 1)
    if kind[0] == "s":
        row("neg", "{0}", (bits,), bits, lambda a: -a)
        row("abs", "{0}", (bits,), bits, lambda a: abs(t(a)))
    for name, holds in COMPARISONS.items():
        row(f"setp.{name}", "{0}, {1}", two, 1, lambda a, b, holds=holds: holds(t(a), t(b)))
    return rows


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def bit_rows(bits: int) -> dict[str, tuple[str, tuple[int, ...], int, Twin]]:
    kind, two = f"b{bits}", (bits, bits)
    rows: dict[str, tuple[str, tuple[int, ...], int, Twin]] = {
        f"and.{kind}": (f"and.{kind} {{d}}, {{0}}, {{1}};", two, bits, lambda a, b: a & b),
        f"or.{kind}": (f"or.{kind} {{d}}, {{0}}, {{1}};", two, bits, lambda a, b: a | b),
        f"xor.{kind}": (f"xor.{kind} {{d}}, {{0}}, {{1}};", two, bits, lambda a, b: a ^ b),
        f"not.{kind}": (f"not.{kind} {{d}}, {{0}};", (bits,), bits, lambda a: ~a),
        f"cnot.{kind}": (f"cnot.{kind} {{d}}, {{0}};", (bits,), bits, lambda a: int(a == 0)),
        f"shl.{kind}": (f"shl.{kind} {{d}}, {{0}}, {{1}};", (bits, 32), bits, lambda a, n: a << min(n, bits)),
        f"selp.{kind}": (f"selp.{kind} {{d}}, {{0}}, {{1}}, {{2}};", (*two, 1), bits, lambda a, b, p: a if p else b),
    }
    if bits > 16:
        rows |= {
            f"popc.{kind}": (f"popc.{kind} {{d}}, {{0}};", (bits,), 32, lambda a: a.bit_count()),
            f"clz.{kind}": (f"clz.{kind} {{d}}, {{0}};", (bits,), 32, lambda a: bits - a.bit_length()),
            f"brev.{kind}": (f"brev.{kind} {{d}}, {{0}};", (bits,), bits, lambda a: int(f"{a:0{bits}b}"[::-1], 2)),
            f"bfi.{kind}": (f"bfi.{kind} {{d}}, {{0}}, {{1}}, {{2}}, {{3}};", (*two, 32, 32), bits, bfi(bits)),
        }
    return rows


OTHER_ROWS: dict[str, tuple[str, tuple[int, ...], int, Twin]] = {
    "add.sat": ("add.sat.s32 {d}, {0}, {1};", (32, 32), 32, lambda a, b: clamp32(signed(a, 32) + signed(b, 32))),
    "sub.sat": ("sub.sat.s32 {d}, {0}, {1};", (32, 32), 32, lambda a, b: clamp32(signed(a, 32) - signed(b, 32))),
    "prmt": ("prmt.b32 {d}, {0}, {1}, {2};", (32, 32, 32), 32, prmt),
    "lop3": ("lop3.b32 {d}, {0}, {1}, {2}, 0xCA;", (32, 32, 32), 32, lop3(0xCA)),
    "shf.l.wrap": ("shf.l.wrap.b32 {d}, {0}, {1}, {2};", (32, 32, 32), 32, funnel(True, True)),
    "shf.r.wrap": ("shf.r.wrap.b32 {d}, {0}, {1}, {2};", (32, 32, 32), 32, funnel(False, True)),
    "shf.l.clamp": ("shf.l.clamp.b32 {d}, {0}, {1}, {2};", (32, 32, 32), 32, funnel(True, False)),
    "shf.r.clamp": ("shf.r.clamp.b32 {d}, {0}, {1}, {2};", (32, 32, 32), 32, funnel(False, False)),
    "shl by 5": ("shl.b32 {d}, {0}, 5;", (32,), 32, lambda a: a << 5),
    "shl by 40": ("shl.b32 {d}, {0}, 40;", (32,), 32, lambda a: 0),
    "shr by 9": ("shr.u64 {d}, {0}, 9;", (64,), 64, lambda a: a >> 9),
    "shr.s32 by 9": ("shr.s32 {d}, {0}, 9;", (32,), 32, lambda a: signed(a, 32) >> 9),
    "setp.lt.and": ("setp.lt.and.u32 {d}, {0}, {1}, {2};", (32, 32, 1), 1, lambda a, b, p: a < b and bool(p)),
    "setp.ge.xor.not": (
        "setp.ge.xor.s32 {d}, {0}, {1}, !{2};",
        (32, 32, 1),
        1,
        lambda a, b, p: (signed(a, 32) >= signed(b, 32)) != (not p),
    ),
    "setp second": ("setp.lt.or.u32 %p10|{d}, {0}, {1}, {2};", (32, 32, 1), 1, lambda a, b, p: a >= b or bool(p)),
    "setp.lo": ("setp.lo.u32 {d}, {0}, {1};", (32, 32), 1, lambda a, b: a < b),
    "setp.hs": ("setp.hs.u64 {d}, {0}, {1};", (64, 64), 1, lambda a, b: a >= b),
    "and.pred": ("and.pred {d}, {0}, {1};", (1, 1), 1, lambda a, b: a and b),
    "not.pred": ("not.pred {d}, {0};", (1,), 1, lambda a: not a),
    "pack": ("mov.b64 {d}, {{{0}, {1}}};", (32, 32), 64, lambda a, b: a | b << 32),
    "pack 4": ("mov.b64 {d}, {{{0}, {1}, {1}, {0}}};", (16, 16), 64, lambda a, b: a | b << 16 | b << 32 | a << 48),
    "unpack": ("mov.b32 {{%rs5, {d}}}, {0};", (32,), 16, lambda a: a >> 16),
    "pack 128": (
        "{{ .reg .b128 q; mov.b128 q, {{{0}, {1}}}; mov.b128 {{%rd30, {d}}}, q; }}",
        (64, 64),
        64,
        lambda a, b: b,
    ),
    "mov immediate": ("mov.b32 {d}, -5;", (32,), 32, lambda a: -5),
    "guard": ("mov.b32 {d}, {0}; @{1} add.s32 {d}, {d}, 1;", (32, 1), 32, lambda a, p: a + bool(p)),
    "guard not": ("mov.b32 {d}, {0}; @!{1} mov.b32 {d}, 9;", (32, 1), 32, lambda a, p: a if p else 9),
    "cvt.u16.u32": ("cvt.u16.u32 {d}, {0};", (32,), 16, lambda a: a),
    "cvt.s32.s16": ("cvt.s32.s16 {d}, {0};", (16,), 32, lambda a: signed(a, 16)),
    "cvt.s64.s32": ("cvt.s64.s32 {d}, {0};", (32,), 64, lambda a: signed(a, 32)),
    "cvt.s32.s8": ("cvt.s32.s8 {d}, {0};", (32,), 32, lambda a: signed(a, 8)),
    "cvt.u32.u8": ("cvt.u32.u8 {d}, {0};", (32,), 32, lambda a: a & 255),
    "cvt.sat.s16.s32": ("cvt.sat.s16.s32 {d}, {0};", (32,), 16, lambda a: max(-(2**15), min(2**15 - 1, signed(a, 32)))),
    "cvt.sat.u8.s32": ("cvt.sat.u8.s32 {d}, {0};", (32,), 32, lambda a: max(0, min(255, signed(a, 32)))),
    "add.f32 bits": ("add.rn.f32 {d}, {0}, 0f3F800000;", (32,), 32, lambda a: f32_bits(f32(a), "rn", plus=1)),
}


def clamp32(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


ROWS = {
    **{name: row for kind in ("u16", "s16", "u32", "s32", "u64", "s64") for name, row in integer_rows(kind).items()},
    **{name: row for bits in (16, 32, 64) for name, row in bit_rows(bits).items()},
    **OTHER_ROWS,
}

EDGES = (0, 1, 2, 3, 31, 32, 33, 63, 64, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def words(count: int, widths: tuple[int, ...], seed: int, nonzero_from: int = 99) -> list[np.ndarray]:
    """Columns of operands: edge values and random ones, masked to their widths."""
    draw = np.random.default_rng(seed)
    columns = []
    for index, bits in enumerate(widths):
        edges = np.array([EDGES[i] for i in draw.integers(0, len(EDGES), count)], np.uint64)
        uniform = draw.integers(0, 2**64, count, np.uint64)
        column = np.where(draw.random(count) < 0.5, edges, uniform) & np.uint64(2**bits - 1)
        if index >= nonzero_from:
            column[column == 0] = 1
        columns.append(column)
    return columns


def test_the_assembler_takes_every_row() -> None:
    entries = [
        apply_entry(template, widths, width, f"k{number}")
        for number, (template, widths, width, _) in enumerate(ROWS.values())
    ]
    assemble(HEADER.format(arch="sm_90a") + "".join(entries))


@pytest.mark.parametrize("name", ROWS)
def test_integers_match_their_twin(name: str) -> None:
    template, widths, width, twin = ROWS[name]
    inputs = words(192, widths, seed=len(name), nonzero_from=1 if name[:3] in ("div", "rem") else 99)
    got = apply(template, inputs, widths, width, assembled=True)
    for lane, operands in enumerate(zip(*inputs, strict=True)):
        values = [int(v) for v in operands]
        want = twin(*values) % 2**width
        assert int(got[lane]) == want, f"{template} of {[hex(v) for v in values]}: {int(got[lane]):#x}, not {want:#x}"


# -- floats: exact rational arithmetic, rounded by hand ---------------------------------------------------------------

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23)}


def value_of(bits: int, kind: str) -> Fraction | float:
    exponent_bits, fraction_bits = FORMATS[kind]
    sign = -1 if bits >> (exponent_bits + fraction_bits) & 1 else 1
    exponent, fraction = bits >> fraction_bits & (2**exponent_bits - 1), bits & (2**fraction_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * Fraction(fraction, 2 ** (bias - 1 + fraction_bits))
    return sign * Fraction(2**fraction_bits + fraction, 2**fraction_bits) * Fraction(2) ** (exponent - bias)


def rounded(value: Fraction, kind: str, mode: str, zero_sign: int = 0) -> int:
    """The bits of an exact finite value in a format: the definition, by integers."""
    exponent_bits, fraction_bits = FORMATS[kind]
    bias, top = 2 ** (exponent_bits - 1) - 1, exponent_bits + fraction_bits
    if value == 0:
        return zero_sign << top
    sign, size = int(value < 0), abs(value)
    scale = 1 - bias - fraction_bits  # exponent of the least place of subnormal values
    scale = max(scale, size.numerator.bit_length() - size.denominator.bit_length() - 1 - fraction_bits)  # or near it
    while size / Fraction(2) ** scale >= 2 ** (fraction_bits + 1):
        scale += 1
    units = size / Fraction(2) ** scale
    low, rest = math.floor(units), units - math.floor(units)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1),
        "rz": False,
        "rm": bool(rest) and sign == 1,
        "rp": bool(rest) and sign == 0,
    }[mode]
    mantissa = low + up
    biased = scale - (1 - bias - fraction_bits)
    magnitude = mantissa + (biased << fraction_bits)  # a carry moves into the exponent by itself
    infinity = (2**exponent_bits - 1) << fraction_bits
    if magnitude >= infinity:
        to_infinity = mode == "rn" or (mode == "rp" and not sign) or (mode == "rm" and sign)
        magnitude = infinity if to_infinity else infinity - 1
    return magnitude | sign << top


def f32(bits: int) -> Fraction | float:
    return value_of(bits, "f32")


def f32_bits(value: Fraction | float, mode: str, plus: int = 0) -> int:
    if isinstance(value, float):
        return 0x7FFFFFFF if math.isnan(value) else struct.unpack("<I", struct.pack("<f", value))[0]
    return rounded(value + plus, "f32", mode)


def exact(operation: str, values: list[Fraction]) -> Fraction:
    if operation == "add":
        return values[0] + values[1]
    if operation == "sub":
        return values[0] - values[1]
    if operation == "mul":
        return values[0] * values[1]
    return values[0] * values[1] + values[2]


def zero_sign_of(operation: str, bits: list[int], kind: str, mode: str) -> int:
    """The sign of a result that is exactly zero (IEEE 754)."""
    top = sum(FORMATS[kind])
    signs = [b >> top & 1 for b in bits]
    terms = {
        "add": [signs[0], signs[-1]],
        "sub": [signs[0], 1 - signs[-1]],
        "mul": [signs[0] ^ signs[1 % len(signs)]] * 2,
        "fma": [signs[0] ^ signs[1 % len(signs)], signs[-1]],
    }[operation]
    return terms[0] if terms[0] == terms[1] else int(mode == "rm")


FLOAT_OPERATIONS = [
    (operation, kind, mode)
    for operation in ("add", "sub", "mul", "fma")
    for kind in ("f16", "bf16", "f32")
    for mode in ("rn", "rz", "rm", "rp")
    if kind == "f32" or mode == "rn"
]


@pytest.mark.parametrize(("operation", "kind", "mode"), FLOAT_OPERATIONS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_floats_match_exact_arithmetic(operation: str, kind: str, mode: str, seed: int) -> None:
    width, count = 1 + sum(FORMATS[kind]), 3 if operation == "fma" else 2
    draw = np.random.default_rng(seed)
    columns = [draw.integers(0, 2**width, 64, np.uint64) for _ in range(count)]
    near = draw.random(64) < 0.5  # of nearly the same size, so that sums cancel
    columns[-1] = np.where(near, columns[0] ^ draw.integers(0, 2**12, 64, np.uint64), columns[-1])
    template = f"{operation}.{mode}.{kind} {{d}}, " + ", ".join(f"{{{i}}}" for i in range(count)) + ";"
    got = apply(template, columns, (width,) * count, width)
    for lane, operands in enumerate(zip(*columns, strict=True)):
        bits = [int(v) for v in operands]
        values = [value_of(b, kind) for b in bits]
        if all(isinstance(v, Fraction) for v in values):
            result = exact(operation, [Fraction(v) for v in values])
            want = rounded(result, kind, mode, zero_sign_of(operation, bits, kind, mode))
            assert int(got[lane]) == want, f"{template} {[hex(b) for b in bits]}: {int(got[lane]):#x}, not {want:#x}"


CONVERSIONS = [
    *((f"cvt.{mode}.f16.f32", "f32", "f16", mode) for mode in ("rn", "rz")),
    *((f"cvt.{mode}.bf16.f32", "f32", "bf16", mode) for mode in ("rn", "rz")),
    ("cvt.f32.f16", "f16", "f32", "rn"),
    ("cvt.f32.bf16", "bf16", "f32", "rn"),
]


@pytest.mark.parametrize(("name", "source", "target", "mode"), CONVERSIONS)
def test_float_formats_convert_exactly(name: str, source: str, target: str, mode: str) -> None:
    width_in, width_out = 1 + sum(FORMATS[source]), 1 + sum(FORMATS[target])
    values = np.random.default_rng(7).integers(0, 2**width_in, 512, np.uint64)
    got = apply(f"{name} {{d}}, {{0}};", [values], (width_in,), width_out)
    for bits, result in zip(values.tolist(), got.tolist(), strict=True):
        value = value_of(bits, source)
        if isinstance(value, Fraction):
            assert result == rounded(value, target, mode, bits >> (width_in - 1))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", ["s32", "u32", "s64", "u64", "s16"])
def test_floats_become_integers_and_saturate(mode: str, target: str) -> None:
    draw = np.random.default_rng(5)
    floats = np.concatenate([draw.normal(0, 10.0**power, 32) for power in (0, 1, 4, 9, 12, 19)]).astype(np.float32)
    floats[:6] = [0.5, 1.5, -0.5, np.inf, -np.inf, np.nan]
    width = int(target[1:])
    got = apply(f"cvt.{mode}.{target}.f32 {{d}}, {{0}};", [floats.view(np.uint32).astype(np.uint64)], (32,), width)
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if target[0] == "s" else (0, 2**width - 1)
    for value, result in zip(floats.tolist(), got.tolist(), strict=True):
        if math.isnan(value):
            want = 2**63 if width == 64 else 0
        elif math.isinf(value):
            want = high if value > 0 else low
        else:
            whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](Fraction(value))
            want = max(low, min(high, whole))
        assert result == want % 2**width, f"{mode} of {value}"


@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
def test_integers_become_floats(source: str) -> None:
    width = int(source[1:])
    (values,) = words(256, (width,), seed=3)
    got = apply(f"cvt.rn.f32.{source} {{d}}, {{0}};", [values], (width,), 32)
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        assert result == rounded(Fraction(typed(source)(value)), "f32", "rn")


def test_pairs_are_converted_with_the_first_operand_above() -> None:
    floats = np.array([1.0, -2.5, 65504.0, 1e-8] * 8, np.float32)
    a, b = floats.view(np.uint32).astype(np.uint64), floats[::-1].copy().view(np.uint32).astype(np.uint64)
    got = apply("cvt.rn.f16x2.f32 {d}, {0}, {1};", [a, b], (32, 32), 32)
    halves = floats.astype(np.float16).view(np.uint16).astype(np.uint64)
    assert got.tolist() == (halves << np.uint64(16) | halves[::-1]).tolist()
    got = apply("cvt.rn.relu.bf16x2.f32 {d}, {0}, {1};", [a, b], (32, 32), 32)
    assert int(got[1]) >> 16 == 0  # -2.5
    assert int(got[0]) >> 16 == 0x3F80


def test_packed_floats_are_two_of_them() -> None:
    draw = np.random.default_rng(1)
    pairs = [draw.normal(size=(32, 2)).astype(np.float32) for _ in range(2)]
    bits = [pair.view(np.uint64).reshape(-1) for pair in pairs]
    got = apply("add.rn.f32x2 {d}, {0}, {1};", bits, (64, 64), 64, arch="sm_100a")
    assert got.view(np.float32).reshape(-1, 2).tolist() == (pairs[0] + pairs[1]).tolist()
    halves = [pair.astype(np.float16) for pair in pairs]
    inputs = [half.view(np.uint32).reshape(-1).astype(np.uint64) for half in halves]
    result = apply("mul.rn.f16x2 {d}, {0}, {1};", inputs, (32, 32), 32)
    assert result.astype(np.uint32).view(np.float16).reshape(-1, 2).tolist() == (halves[0] * halves[1]).tolist()


@pytest.mark.parametrize(
    ("operation", "a", "b", "want"),
    [
        ("min.f32", 0x00000000, 0x80000000, 0x80000000),
        ("max.f32", 0x80000000, 0x00000000, 0x00000000),
        ("min.f32", 0x7FC00001, 0x3F800000, 0x3F800000),
        ("max.f32", 0x3F800000, 0xFFC00000, 0x3F800000),
        ("max.NaN.f32", 0x3F800000, 0xFFC00000, 0x7FFFFFFF),
        ("min.f32", 0x7FC00001, 0xFFC00000, 0x7FFFFFFF),
        ("add.ftz.f32", 0x00000001, 0x00000001, 0x00000000),
        ("add.f32", 0x00000001, 0x00000001, 0x00000002),
        ("add.sat.f32", 0x3F800000, 0x3F800000, 0x3F800000),
        ("add.sat.f32", 0xBF800000, 0xBF800000, 0x00000000),
        ("add.f32", 0x7F800000, 0xFF800000, 0x7FFFFFFF),
        ("div.full.f32", 0x40C00000, 0x40000000, 0x40400000),
    ],
)
def test_special_values_of_f32(operation: str, a: int, b: int, want: int) -> None:
    got = apply(
        f"{operation} {{d}}, {{0}}, {{1}};", [np.full(32, a, np.uint64), np.full(32, b, np.uint64)], (32, 32), 32
    )
    assert int(got[0]) == want


@pytest.mark.parametrize(
    ("compare", "results"),  # of (1, 2), (2, 2), (2, 1), (NaN, 1)
    [
        ("lt", [1, 0, 0, 0]),
        ("ltu", [1, 0, 0, 1]),
        ("ne", [1, 0, 1, 0]),
        ("neu", [1, 0, 1, 1]),
        ("equ", [0, 1, 0, 1]),
        ("geu", [0, 1, 1, 1]),
        ("num", [1, 1, 1, 0]),
        ("nan", [0, 0, 0, 1]),
    ],
)
def test_comparisons_of_floats_and_nan(compare: str, results: list[int]) -> None:
    a = np.array([1, 2, 2, np.nan] * 8, np.float32).view(np.uint32).astype(np.uint64)
    b = np.array([2, 2, 1, 1] * 8, np.float32).view(np.uint32).astype(np.uint64)
    assert apply(f"setp.{compare}.f32 {{d}}, {{0}}, {{1}};", [a, b], (32, 32), 1).tolist() == results * 8


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ex2.approx.f32", lambda x: 2.0**x),
        ("rcp.approx.f32", lambda x: 1 / x),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(abs(x)) if x > 0 else None),
        ("lg2.approx.f32", lambda x: math.log2(x) if x > 0 else None),
        ("sqrt.rn.f32", lambda x: math.sqrt(x) if x >= 0 else None),
        ("tanh.approx.f32", math.tanh),
    ],
)
def test_functions_are_within_the_error_that_ptx_allows(name: str, function: Callable[[float], float | None]) -> None:
    floats = np.random.default_rng(2).uniform(-8, 8, 64).astype(np.float32)
    got = apply(f"{name} {{d}}, {{0}};", [floats.view(np.uint32).astype(np.uint64)], (32,), 32)
    for x, result in zip(floats.tolist(), got.astype(np.uint32).view(np.float32).tolist(), strict=True):
        want = function(x)
        if want is not None:
            assert result == pytest.approx(want, rel=2**-22)
