"""Arithmetic that integers and floats share by name, the float functions, and conversions.

Rounded operations are exact to the bit. The .approx ones (ex2, lg2, rcp, rsqrt, sqrt, tanh, div) give the correctly
rounded value, which lies within the error that PTX allows but is not always what a GPU gives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .alu import ALU, Builder, integer_add, integer_div, integer_minmax, integer_mul, is_float, signed_view
from .floats import FORMATS, Format, fused, odd_product, odd_sum, round_integral
from .isa import Modifiers, Unsupported
from .program import Instruction
from .slots import DTYPES, Array, Regs, Slots, Step, bits_of, pure

__all__ = ["ARITHMETIC"]

_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}


def _finish(form: Format, m: Modifiers, bits: Array) -> Array:
    """Flush, canonical NaN, and saturation to [0, 1], as the modifiers ask."""
    bits = form.canonical(form.flush(bits) if m.get("ftz") else bits)
    if m.get("sat"):
        value = form.double(bits)
        bits = form.rounded(np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0)) + 0.0, "rn")
    return bits


def _lanewise(i: Instruction, m: Modifiers, s: Slots, count: int, function: Callable[..., Array]) -> Step:
    """A step for a float operation; `function` sees and gives the bits of `count` operands, two a lane if packed."""
    kind = m["type"]
    base = _PACKED.get(kind, kind)
    if base not in FORMATS:
        raise Unsupported(f".{kind}")
    form = FORMATS[base]
    d = s.write(i.operands[0], bits_of(kind))
    slots = [s.read(operand, kind) for operand in i.operands[1 : count + 1]]
    part, plain, ftz = form.bits, DTYPES[bits_of(kind)], bool(m.get("ftz"))

    def full(regs: Regs) -> None:
        values = [regs[slot].view(part) for slot in slots]
        if ftz:
            values = [form.flush(value) for value in values]
        regs[d] = _finish(form, m, function(*values)).view(plain)

    return pure(full, d)


def _rounding(m: Modifiers) -> str:
    rounding = m.get("round") or "rn"
    if rounding not in ("rn", "rz", "rm", "rp"):
        raise Unsupported(f".{rounding}")
    return rounding


def _form(m: Modifiers) -> Format:
    base = _PACKED.get(m["type"], m["type"])
    if base not in FORMATS:
        raise Unsupported(f".{m['type']}")
    return FORMATS[base]


def _rounded_operation(
    i: Instruction,
    m: Modifiers,
    s: Slots,
    native: Callable[[Array, Array], Array],
    exact: Callable[[Array, Array, str], Array],
) -> Step:
    """add, sub or mul: NumPy's own where it rounds correctly, else through a double rounded to odd."""
    form, rounding = _form(m), _rounding(m)
    if form.native is not None and rounding == "rn":
        own, part = form.native, form.bits
        return _lanewise(i, m, s, 2, lambda a, b: native(a.view(own), b.view(own)).view(part))
    if form.native is np.float64:
        raise Unsupported(f".{rounding}.f64")
    return _lanewise(i, m, s, 2, lambda a, b: form.rounded(exact(form.double(a), form.double(b), rounding), rounding))


def _add(i: Instruction, m: Modifiers, s: Slots) -> Step:
    if not is_float(m["type"]):
        return integer_add(i, m, s)
    if i.pieces[0] == "add":
        return _rounded_operation(i, m, s, np.add, odd_sum)
    return _rounded_operation(i, m, s, np.subtract, lambda a, b, rounding: odd_sum(a, -b, rounding))


def _mul(i: Instruction, m: Modifiers, s: Slots) -> Step:
    if not is_float(m["type"]):
        return integer_mul(i, m, s)
    if m["half"]:
        raise Unsupported(f".{m['half']}.{m['type']}")
    return _rounded_operation(i, m, s, np.multiply, odd_product)


def _fma(i: Instruction, m: Modifiers, s: Slots) -> Step:
    if not is_float(m["type"]):
        return integer_mul(i, m, s)
    form, rounding = _form(m), _rounding(m)
    if form.native is np.float64 or m.get("half"):
        raise Unsupported(f".{m['type']}")
    return _lanewise(
        i,
        m,
        s,
        3,
        lambda a, b, c: form.rounded(fused(form.double(a), form.double(b), form.double(c), rounding), rounding),
    )


def _div(i: Instruction, m: Modifiers, s: Slots) -> Step:
    if not is_float(m["type"]):
        return integer_div(i, m, s)
    if m["type"] not in ("f32", "f64") or m["approx"] not in ("approx", "full", "rn"):
        raise Unsupported(f".{m['approx']}.{m['type']}")
    own, part = _form(m).native, _form(m).bits
    return _lanewise(i, m, s, 2, lambda a, b: np.divide(a.view(own), b.view(own)).view(part))


def _rem(i: Instruction, m: Modifiers, s: Slots) -> Step:
    if is_float(m["type"]):
        raise Unsupported(f".{m['type']}")
    return integer_div(i, {**m, "approx": "", "ftz": ""}, s)


def _minmax(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """min and max of floats: a NaN gives way to a number, unless .NaN; -0 is below +0."""
    if not is_float(m["type"]):
        return integer_minmax(i, m, s)
    form = _form(m)
    least, keep_nan = i.pieces[0] == "min", bool(m["nan"])

    def function(a: Array, b: Array) -> Array:
        x, y = form.double(a), form.double(b)
        both_zero = (a | b) if least else (a & b)
        result = np.where((x < y) if least else (x > y), a, b)
        result = np.where((x == 0) & (y == 0), both_zero, result)
        result = np.where(np.isnan(x), a if keep_nan else b, result)
        return np.where(np.isnan(y), b if keep_nan else a, result)

    return _lanewise(i, m, s, 2, function)


def _sign(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """neg and abs of floats work on the sign bit."""
    if not is_float(m["type"]):
        return ALU[i.pieces[0]](i, m, s)
    form = _form(m)
    top = form.bits(1 << (form.width - 1))
    if i.pieces[0] == "neg":
        return _lanewise(i, m, s, 1, lambda a: a ^ top)
    return _lanewise(i, m, s, 1, lambda a: a & ~top)


def _function(function: Callable[[Array], Array], *kinds: str) -> Builder:
    """A function of one float, computed in double precision and rounded once."""

    def build(i: Instruction, m: Modifiers, s: Slots) -> Step:
        rounding = m.get("approx") or "approx"
        if m["type"] not in kinds or rounding not in ("approx", "rn"):
            raise Unsupported(f".{rounding}.{m['type']}")
        form = _form(m)
        return _lanewise(i, m, s, 1, lambda a: form.rounded(function(form.double(a)), "rn"))

    return build


# -- conversions ------------------------------------------------------------------------------------------------------


def _cvt(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target, source = m["type"], m["from"]
    if len(i.operands) == 3:
        return _cvt_pair(i, m, s)
    if m["relu"]:
        raise Unsupported(f".{m['relu']}")
    if is_float(target) or is_float(source):
        return _cvt_float(i, m, s)
    if m["round"] or m["ftz"]:
        raise Unsupported(f".{m['round'] or m['ftz']} between integers")
    return _write_converted(i, s, target, source, _integer_to_integer(m, target, source))


def _write_converted(i: Instruction, s: Slots, target: str, source: str, function: Callable[[Array], Array]) -> Step:
    """A step that reads `source` and writes `target`; registers may be wider than both."""
    d, a = s.write(i.operands[0], None), s.any_width(i.operands[1], source)[0]
    width = getattr(i.operands[0], "bits", bits_of(target))
    if width < bits_of(target):
        raise Unsupported(f".{target} in a register of {width} bits")
    narrow, wide = DTYPES[bits_of(source)], DTYPES[width]
    view = signed_view(target)

    def full(regs: Regs) -> None:
        value = function(regs[a].astype(narrow, copy=False))
        if view is not None:
            value = value.view(view)
        regs[d] = value.astype(wide, copy=False)

    return pure(full, d)


def _integer_to_integer(m: Modifiers, target: str, source: str) -> Callable[[Array], Array]:
    view, plain = signed_view(source), DTYPES[bits_of(target)]
    if not m["sat"]:
        return lambda a: (a if view is None else a.view(view)).astype(plain)
    bits, signed = bits_of(target), target.startswith("s")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def saturated(a: Array) -> Array:
        values = a if view is None else a.view(view)
        limits = np.iinfo(values.dtype)
        return np.clip(values, max(low, int(limits.min)), min(high, int(limits.max))).astype(plain)

    return saturated


def _cvt_float(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target, source = m["type"], m["from"]
    for kind in (target, source):
        if is_float(kind) and kind not in FORMATS:
            raise Unsupported(f".{target}.{source}")
    if not is_float(target):
        return _write_converted(i, s, target, source, _float_to_integer(m, target, FORMATS[source]))
    form = FORMATS[target]
    if not is_float(source):
        return _write_converted(i, s, target, source, _integer_to_float(m, form, source))
    return _write_converted(i, s, target, source, _float_to_float(m, form, FORMATS[source]))


def _float_to_integer(m: Modifiers, target: str, form: Format) -> Callable[[Array], Array]:
    if m["round"] not in ("rni", "rzi", "rmi", "rpi"):
        raise Unsupported(f".{m['round']} to an integer")
    bits, view = bits_of(target), signed_view(target)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if view else (0, 2**bits)
    plain = DTYPES[bits]

    def function(a: Array) -> Array:
        values = round_integral(form.double(form.flush(a) if m["ftz"] else a), m["round"])
        inside = (values >= low) & (values < high)
        whole = np.where(inside, values, 0.0).astype(view or plain).view(plain)
        whole = np.where(values >= high, plain(high - 1), np.where(values < low, plain(low % 2**bits), whole))
        nan = 2 ** (bits - 1) if bits == 64 else 0
        result: Array = np.where(np.isnan(values), plain(nan), whole)
        return result

    return function


def _integer_to_float(m: Modifiers, form: Format, source: str) -> Callable[[Array], Array]:
    rounding = _rounding(m)
    view = signed_view(source)
    if bits_of(source) == 64:
        if rounding != "rn" or form.native not in (np.float32, np.float64):
            raise Unsupported(f".{rounding} from .{source}")
        own, part = form.native, form.bits
        return lambda a: _finish(form, m, (a if view is None else a.view(view)).astype(own).view(part))
    return lambda a: _finish(form, m, form.rounded((a if view is None else a.view(view)).astype(np.float64), rounding))


def _float_to_float(m: Modifiers, form: Format, source: Format) -> Callable[[Array], Array]:
    integral = m["round"] if m["round"] in ("rni", "rzi", "rmi", "rpi") else ""
    if integral and form is not source:
        raise Unsupported(f".{integral} between formats")
    rounding = "rn" if integral else _rounding(m)

    def function(a: Array) -> Array:
        if m["ftz"]:
            a = source.flush(a)
        values = source.double(a)
        return _finish(form, m, form.rounded(round_integral(values, integral) if integral else values, rounding))

    return function


def _cvt_pair(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """d = {a in the upper half, b in the lower}: cvt.rn.f16x2.f32 and cvt.rn.bf16x2.f32."""
    target = m["type"]
    if target not in ("f16x2", "bf16x2") or m["from"] != "f32" or m["sat"] or m["ftz"] or m["relu"] == "satfinite":
        raise Unsupported(f"{i.opcode}")
    form, rounding, relu = FORMATS[_PACKED[target]], _rounding(m), bool(m["relu"])
    d, a, b = s.write(i.operands[0], 32), s.read(i.operands[1], "f32"), s.read(i.operands[2], "f32")

    def full(regs: Regs) -> None:
        halves = []
        for slot in (b, a):
            value = regs[slot]
            if relu:
                value = np.where(value.view(np.float32) <= 0, np.uint32(0), value)
            halves.append(form.narrowed(value, rounding))
        regs[d] = np.stack(halves, axis=1).view(np.uint32).reshape(-1)

    return pure(full, d)


ARITHMETIC: dict[str, Builder] = {
    **dict.fromkeys(("add", "sub"), _add),
    "mul": _mul,
    **dict.fromkeys(("mad", "fma"), _fma),
    "div": _div,
    "rem": _rem,
    **dict.fromkeys(("min", "max"), _minmax),
    **dict.fromkeys(("neg", "abs"), _sign),
    "rcp": _function(lambda a: 1.0 / a, "f32"),
    "sqrt": _function(np.sqrt, "f32", "f64"),
    "rsqrt": _function(lambda a: 1.0 / np.sqrt(a), "f32"),
    "ex2": _function(np.exp2, "f32", "f16", "bf16"),
    "lg2": _function(np.log2, "f32"),
    "tanh": _function(np.tanh, "f32", "f16", "bf16"),
    "cvt": _cvt,
}
"""Operations on integers and floats by the name of the instruction."""
