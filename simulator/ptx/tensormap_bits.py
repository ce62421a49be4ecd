"""The 128 bytes of a tensor map, and tensormap.replace (PTX 9.7.9.28).

NVIDIA does not document the bits of a CUtensorMap, so these are the machine's own: every field as tensormap.replace
writes it, little-endian and unpacked. Kernels may copy a map, begin with zeros, and replace its fields one by one; what
they cannot do is know its bits. A map whose fields do not fit together is only wrong when it is used.
"""

from __future__ import annotations

import struct

from .illegal import Illegal, Unsupported
from .swizzle import SmemSwizzle
from .tensormap import Element, Fill, TensorMap

__all__ = ["SIZE", "pack", "replace_field", "unpack"]

SIZE = 128
_WHAT = "tensor map"
_FORMAT = struct.Struct("<Q4Q5Q5I5I6BH")
_FIELDS = {  # name: (first value of the format, values, greatest value)
    "global_address": (0, 1, 2**64 - 1),
    "global_stride": (1, 4, 2**64 - 1),
    "global_dim": (5, 5, 2**32 - 1),
    "box_dim": (10, 5, 2**32 - 1),
    "element_stride": (15, 5, 2**32 - 1),
    "rank": (20, 1, 4),
    "elemtype": (21, 1, 15),
    "interleave_layout": (22, 1, 2),
    "swizzle_mode": (23, 1, 4),
    "swizzle_atomicity": (24, 1, 3),
    "fill_mode": (25, 1, 1),
}
_INDEXED = {"global_stride", "global_dim", "box_dim", "element_stride"}
_ELEMENTS = {element.ptx_code: element for element in Element}
_SWIZZLES = {  # (mode, atomicity)
    (0, 0): SmemSwizzle.NONE,
    (1, 0): SmemSwizzle.B32,
    (2, 0): SmemSwizzle.B64,
    (3, 0): SmemSwizzle.B128,
    (3, 1): SmemSwizzle.B128_ATOM32,
}


def pack(tensor: TensorMap) -> bytes:
    """128 bytes. Raises ValueError for a value that its field cannot hold, which `check` refuses too."""
    codes = {one: code for code, one in _SWIZZLES.items()}[tensor.swizzle]
    try:
        return _FORMAT.pack(
            tensor.address,
            *_padded(tensor.strides, 4),
            *_padded(tensor.dims, 5),
            *_padded(tensor.box, 5),
            *_padded(tensor.steps, 5),
            *(tensor.rank - 1, tensor.element.ptx_code, 0, *codes, tensor.fill, 0),
        )
    except struct.error as error:
        raise ValueError(f"tensor map {tensor}: {error}") from error


def _padded(values: tuple[int, ...], length: int) -> tuple[int, ...]:
    return values + (0,) * (length - len(values))


def unpack(data: bytes) -> TensorMap | Illegal:
    """The map that these 128 bytes are; not checked beyond its codes: see `check`.

    Illegal: bytes that are no map, a code that no value has. Unsupported: interleaved layouts, packed types, 96-byte
    swizzles, 64-byte atoms, the 8-byte flip.
    """
    values = _FORMAT.unpack(data)
    if values[26]:
        return Illegal(_WHAT, "bytes 126-127", values[26], "must be 0: these bytes are no tensor map")
    rank, elemtype, interleave, mode, atomicity, fill = values[20:26]
    for name, (first, count, most) in _FIELDS.items():
        if count == 1 and values[first] > most:
            return Illegal(_WHAT, name, values[first], f"0 to {most}")
    if elemtype not in _ELEMENTS:
        return Unsupported(_WHAT, "elemtype", elemtype, "packed types are not modelled")
    if interleave:
        return Unsupported(_WHAT, "interleave_layout", interleave, "interleaved layouts are not modelled")
    if (mode, atomicity) not in _SWIZZLES:
        if mode < 3 and atomicity:
            return Illegal(_WHAT, "swizzle_atomicity", atomicity, "must be 0 unless the swizzle has 128 bytes")
        return Unsupported(_WHAT, "swizzle_mode, swizzle_atomicity", f"{mode}, {atomicity}", "not modelled")
    return TensorMap(
        element=_ELEMENTS[elemtype],
        address=values[0],
        strides=values[1 : 1 + rank],
        dims=values[5 : 6 + rank],
        box=values[10 : 11 + rank],
        steps=values[15 : 16 + rank],
        swizzle=_SWIZZLES[mode, atomicity],
        fill=Fill(fill),
    )


def replace_field(data: bytes, field: str, value: int, index: int | None = None) -> bytes | Illegal:
    """tensormap.replace.tile.`field` of a map's 128 bytes; `index` is the ordinal of the fields that have one.

    `rank` is written as the rank less one, `global_stride` in bytes. Illegal: a field, ordinal or code that does not
    exist.
    """
    what = "tensormap.replace"
    if field not in _FIELDS:
        return Illegal(what, "field", field, f"one of {', '.join(_FIELDS)}")
    first, count, most = _FIELDS[field]
    if (index is not None) != (field in _INDEXED) or not 0 <= (index or 0) < count:
        return Illegal(what, f"{field} ordinal", str(index), f"0 to {count - 1}" if field in _INDEXED else "none")
    if not 0 <= value <= most:
        return Illegal(what, field, value, f"0 to {most}")
    values = list(_FORMAT.unpack(data))
    values[first + (index or 0)] = value
    return _FORMAT.pack(*values)
