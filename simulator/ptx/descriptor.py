"""Descriptors of the tensor cores, decoded strictly from their bits (docs/tensor-core.md, rules 55-60).

Shared-memory descriptors: PTX 9.7.16.4.1 (tcgen05) and 9.7.15.5.1 (wgmma), which differ in the fixed bits and in the
swizzle codes. Instruction descriptor: PTX 9.7.16.4.2, table 42, with the shapes of table 39. A field that must have
one value and has another, or that contradicts another field, comes back as an `Illegal` that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from .illegal import Illegal, Unsupported
from .swizzle import SmemSwizzle

__all__ = [
    "InstructionDescriptor",
    "Kind",
    "Major",
    "MmaType",
    "SmemDescriptor",
    "decode_instruction",
    "decode_tcgen05",
    "decode_wgmma",
    "encode_instruction",
    "encode_tcgen05",
    "encode_wgmma",
]

_REACH = 1 << 18  # matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4


class Major(IntEnum):
    """Which dimension of an operand is contiguous: its bit in the instruction descriptor, and wgmma's imm-trans."""

    K = 0
    MN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SmemDescriptor:
    """An operand in shared memory: bytes in [0, 2^18), multiples of 16.

    `base_offset` is the row, modulo 8, at which the swizzle pattern begins (rule 60).
    """

    address: int
    leading: int
    stride: int
    swizzle: SmemSwizzle
    base_offset: int = 0


_TCGEN05_SWIZZLES = {
    0: SmemSwizzle.NONE,
    1: SmemSwizzle.B128_ATOM32,
    2: SmemSwizzle.B128,
    4: SmemSwizzle.B64,
    6: SmemSwizzle.B32,
}
_WGMMA_SWIZZLES = {0: SmemSwizzle.NONE, 1: SmemSwizzle.B128, 2: SmemSwizzle.B64, 3: SmemSwizzle.B32}
# (first bit, bits, value): what each format fixes.
_TCGEN05_FIXED = ((14, 2, 0), (30, 2, 0), (46, 3, 0b001), (53, 8, 0))
_WGMMA_FIXED = ((14, 2, 0), (30, 2, 0), (46, 3, 0), (52, 10, 0))


def _field(bits: int, first: int, width: int) -> int:
    return bits >> first & ((1 << width) - 1)


def _fixed(what: str, bits: int, fixed: Iterable[tuple[int, int, int]]) -> Illegal | None:
    for first, width, value in fixed:
        if (found := _field(bits, first, width)) != value:
            name = f"bits {first}-{first + width - 1}" if width > 1 else f"bit {first}"
            return Illegal(what, name, found, f"must be {value}")
    return None


def _decode_smem(what: str, bits: int, swizzles: Mapping[int, SmemSwizzle], code: int) -> SmemDescriptor | Illegal:
    if code not in swizzles:
        return Illegal(what, "swizzle mode", code, f"one of {', '.join(map(str, swizzles))}")
    decoded = SmemDescriptor(
        address=_field(bits, 0, 14) << 4,
        leading=_field(bits, 16, 14) << 4,
        stride=_field(bits, 32, 14) << 4,
        swizzle=swizzles[code],
        base_offset=_field(bits, 49, 3),
    )
    if decoded.base_offset and decoded.swizzle is SmemSwizzle.NONE:
        return Illegal(what, "base offset", decoded.base_offset, "must be 0 without a swizzle: there is no pattern")
    return decoded


def decode_tcgen05(bits: int) -> SmemDescriptor | Illegal:
    """The shared-memory descriptor of tcgen05.mma and tcgen05.cp with these 64 bits.

    Unsupported: the absolute address mode of the leading dimension (bit 52), which sm_103a has for 48-byte K.
    """
    what = "tcgen05 shared-memory descriptor"
    wrong = _fixed(what, bits, _TCGEN05_FIXED)
    if wrong is not None:
        return wrong
    if _field(bits, 52, 1):
        return Unsupported(what, "leading dimension mode", 1, "absolute addresses, for 48-byte K, are not modelled")
    return _decode_smem(what, bits, _TCGEN05_SWIZZLES, _field(bits, 61, 3))


def decode_wgmma(bits: int) -> SmemDescriptor | Illegal:
    """The matrix descriptor of wgmma.mma_async with these 64 bits."""
    what = "wgmma matrix descriptor"
    wrong = _fixed(what, bits, _WGMMA_FIXED)
    return wrong if wrong is not None else _decode_smem(what, bits, _WGMMA_SWIZZLES, _field(bits, 62, 2))


def _encode_smem(descriptor: SmemDescriptor) -> int:
    bits = 0
    for name, first in (("address", 0), ("leading", 16), ("stride", 32)):
        value = getattr(descriptor, name)
        if not 0 <= value < _REACH or value % 16:
            raise ValueError(f"{name}={value} is not a multiple of 16 in [0, {_REACH})")
        bits |= value >> 4 << first
    if not 0 <= descriptor.base_offset < 8:
        raise ValueError(f"base_offset={descriptor.base_offset} is outside [0, 7]")
    return bits | descriptor.base_offset << 49


def encode_tcgen05(descriptor: SmemDescriptor) -> int:
    """64 bits. Raises ValueError for a value that its field cannot hold."""
    code = {mode: code for code, mode in _TCGEN05_SWIZZLES.items()}[descriptor.swizzle]
    return _encode_smem(descriptor) | 0b001 << 46 | code << 61


def encode_wgmma(descriptor: SmemDescriptor) -> int:
    """64 bits. Raises ValueError for a value that its field cannot hold, such as a swizzle with 32-byte atoms."""
    codes = {mode: code for code, mode in _WGMMA_SWIZZLES.items()}
    if descriptor.swizzle not in codes:
        raise ValueError(f"swizzle={descriptor.swizzle.name} is none of wgmma's")
    return _encode_smem(descriptor) | codes[descriptor.swizzle] << 62


class MmaType(Enum):
    """Types of matrix elements, by their names in PTX."""

    F16 = "f16"
    BF16 = "bf16"
    TF32 = "tf32"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    E2M3 = "e2m3"
    E3M2 = "e3m2"
    E2M1 = "e2m1"
    F32 = "f32"


_F8F6F4 = {0: MmaType.E4M3, 1: MmaType.E5M2, 3: MmaType.E2M3, 4: MmaType.E3M2, 5: MmaType.E2M1}


class Kind(Enum):
    """Kinds of tcgen05.mma: (K of a dense instruction, codes of A and B, codes of D)."""

    F16 = (16, {0: MmaType.F16, 1: MmaType.BF16}, {0: MmaType.F16, 1: MmaType.F32})
    TF32 = (8, {2: MmaType.TF32}, {1: MmaType.F32})
    F8F6F4 = (32, _F8F6F4, {1: MmaType.F32})

    @property
    def k(self) -> int:
        """Elements along K of one dense instruction."""
        return self.value[0]

    @property
    def inputs(self) -> Mapping[int, MmaType]:
        """Types of A and B by code."""
        return self.value[1]

    @property
    def outputs(self) -> Mapping[int, MmaType]:
        """Types of D by code."""
        return self.value[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionDescriptor:
    """A dense tcgen05.mma without .ws: D[m, n] = A[m, k] · B[n, k]ᵀ, or plus D. Sizes in elements, of all CTAs."""

    kind: Kind
    m: int
    n: int
    a: MmaType
    b: MmaType
    d: MmaType
    a_major: Major = Major.K
    b_major: Major = Major.K
    negate_a: bool = False
    negate_b: bool = False

    @property
    def k(self) -> int:
        """Elements along K."""
        return self.kind.k


_INSTRUCTION_FIXED = ((3, 1, 0), (6, 1, 0), (23, 1, 0), (29, 1, 0), (30, 2, 0))
# Table 39, dense and without .ws, the same for the three kinds: CTA group -> (values of M, step of N).
_SHAPES = {1: ((64, 128), 8), 2: ((128, 256), 16)}


def decode_instruction(
    bits: int, kind: Kind, cta_group: int, *, a_in_tmem: bool = False
) -> InstructionDescriptor | Illegal:
    """The instruction descriptor with these 32 bits, of a tcgen05.mma of `kind` by `cta_group` (1 or 2) CTAs.

    `a_in_tmem`: A is in tensor memory, which excludes a transposed A. Unsupported: sparse A. Not for .ws, whose shapes
    and bits 30-31 differ.
    """
    what = "tcgen05 instruction descriptor"
    if _field(bits, 2, 1):
        return Unsupported(what, "sparsity", 1, "sparse A is not modelled")
    if _field(bits, 0, 2):
        return Illegal(what, "sparsity selector", _field(bits, 0, 2), "must be 0 for dense A")
    wrong = _fixed(what, bits, _INSTRUCTION_FIXED)
    if wrong is not None:
        return wrong
    codes = {"dtype": _field(bits, 4, 2), "atype": _field(bits, 7, 3), "btype": _field(bits, 10, 3)}
    tables = {"dtype": kind.outputs, "atype": kind.inputs, "btype": kind.inputs}
    for name, code in codes.items():
        if code not in tables[name]:
            allowed = ", ".join(f"{key} ({value.value})" for key, value in tables[name].items())
            return Illegal(what, name, code, f"kind {kind.name.lower()} has {allowed}")
    decoded = InstructionDescriptor(
        kind=kind,
        m=_field(bits, 24, 5) << 4,
        n=_field(bits, 17, 6) << 3,
        a=kind.inputs[codes["atype"]],
        b=kind.inputs[codes["btype"]],
        d=kind.outputs[codes["dtype"]],
        a_major=Major(_field(bits, 15, 1)),
        b_major=Major(_field(bits, 16, 1)),
        negate_a=bool(_field(bits, 13, 1)),
        negate_b=bool(_field(bits, 14, 1)),
    )
    return _contradiction(what, decoded, cta_group, a_in_tmem) or decoded


def _contradiction(what: str, decoded: InstructionDescriptor, cta_group: int, a_in_tmem: bool) -> Illegal | None:
    ms, step = _SHAPES[cta_group]
    if decoded.m not in ms:
        return Illegal(what, "M", decoded.m, f"cta_group::{cta_group} has {ms[0]} and {ms[1]}")
    if decoded.n % step or not step <= decoded.n <= 256:
        return Illegal(what, "N", decoded.n, f"cta_group::{cta_group} has {step} to 256 in steps of {step}")
    if decoded.d is MmaType.F16 and MmaType.BF16 in (decoded.a, decoded.b):
        name = "atype" if decoded.a is MmaType.BF16 else "btype"
        return Illegal(what, name, "1 (bf16)", "D of type f16 needs A and B of type f16")
    if a_in_tmem and decoded.a_major is Major.MN:
        return Illegal(what, "transpose A", 1, "A in tensor memory cannot be transposed")
    narrow = (MmaType.E2M3, MmaType.E3M2, MmaType.E2M1)
    for name, kind, major in (("A", decoded.a, decoded.a_major), ("B", decoded.b, decoded.b_major)):
        if kind in narrow and major is Major.MN:
            return Illegal(what, f"transpose {name}", 1, f"{kind.value} cannot be transposed")
    return None


def encode_instruction(descriptor: InstructionDescriptor) -> int:
    """32 bits. Raises ValueError for a value that its field cannot hold."""
    if descriptor.m % 16 or not 0 <= descriptor.m >> 4 < 32:
        raise ValueError(f"m={descriptor.m} is not a multiple of 16 in [0, 496]")
    if descriptor.n % 8 or not 0 <= descriptor.n >> 3 < 64:
        raise ValueError(f"n={descriptor.n} is not a multiple of 8 in [0, 504]")
    inputs = {name: code for code, name in descriptor.kind.inputs.items()}
    outputs = {name: code for code, name in descriptor.kind.outputs.items()}
    for name in (descriptor.a, descriptor.b):
        if name not in inputs:
            raise ValueError(f"{name.value} is no input of kind {descriptor.kind.name.lower()}")
    if descriptor.d not in outputs:
        raise ValueError(f"{descriptor.d.value} is no output of kind {descriptor.kind.name.lower()}")
    return (
        outputs[descriptor.d] << 4
        | inputs[descriptor.a] << 7
        | inputs[descriptor.b] << 10
        | descriptor.negate_a << 13
        | descriptor.negate_b << 14
        | descriptor.a_major << 15
        | descriptor.b_major << 16
        | descriptor.n >> 3 << 17
        | descriptor.m >> 4 << 24
    )
