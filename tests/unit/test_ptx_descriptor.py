"""Descriptors: the check values of docs/tensor-core.md, and one planted fault per field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilesched.simulator.ptx.descriptor import (
    InstructionDescriptor,
    Kind,
    Major,
    MmaType,
    SmemDescriptor,
    decode_instruction,
    decode_tcgen05,
    decode_wgmma,
    encode_instruction,
    encode_tcgen05,
    encode_wgmma,
)
from tilesched.simulator.ptx.illegal import Illegal, Unsupported
from tilesched.simulator.ptx.swizzle import SmemSwizzle

BF16_128X256 = InstructionDescriptor(kind=Kind.F16, m=128, n=256, a=MmaType.BF16, b=MmaType.BF16, d=MmaType.F32)


@pytest.mark.parametrize(
    ("bits", "cta_group", "meaning"),
    [  # rule 55
        (0x08400490, 1, BF16_128X256),
        (0x08400010, 1, replace(BF16_128X256, a=MmaType.F16, b=MmaType.F16)),
        (0x10400490, 2, replace(BF16_128X256, m=256)),
    ],
)
def test_check_values_of_the_instruction_descriptor(bits: int, cta_group: int, meaning: InstructionDescriptor) -> None:
    assert decode_instruction(bits, Kind.F16, cta_group) == meaning
    assert encode_instruction(meaning) == bits


@pytest.mark.parametrize("address", [0x400, 0x8000, 0x3FC00])
def test_check_values_of_the_smem_descriptors(address: int) -> None:
    """Rule 59: K-major, 128 bytes, SBO 1024, LBO written as 1; the next K step of 16 adds 2 to the low word."""
    meaning = SmemDescriptor(address=address, leading=16, stride=1024, swizzle=SmemSwizzle.B128)
    sm100, sm90 = 0x4000404000010000 | address >> 4, 0x4000004000010000 | address >> 4
    assert decode_tcgen05(sm100) == meaning
    assert decode_wgmma(sm90) == meaning
    assert (encode_tcgen05(meaning), encode_wgmma(meaning)) == (sm100, sm90)
    assert decode_tcgen05(sm100 + 2) == replace(meaning, address=address + 32)


def test_swizzle_codes_differ_between_the_two_formats() -> None:
    """Rules 57 and 58."""
    codes = {}
    for mode in SmemSwizzle:
        one = SmemDescriptor(address=0, leading=0, stride=0, swizzle=mode)
        codes[mode.name] = (
            encode_tcgen05(one) >> 61,
            None if mode is SmemSwizzle.B128_ATOM32 else encode_wgmma(one) >> 62,
        )
    assert codes == {"NONE": (0, 0), "B32": (6, 3), "B64": (4, 2), "B128": (2, 1), "B128_ATOM32": (1, None)}


SM100 = 0x4000404000010040
SM90 = 0x4000004000010040


@pytest.mark.parametrize(
    ("bits", "field"),
    [
        (SM100 | 1 << 14, "bits 14-15"),
        (SM100 | 1 << 15, "bits 14-15"),
        (SM100 | 1 << 31, "bits 30-31"),
        (SM100 & ~(1 << 46), "bits 46-48"),
        (SM100 | 1 << 47, "bits 46-48"),
        (SM100 | 1 << 53, "bits 53-60"),
        (SM100 | 1 << 60, "bits 53-60"),
        (SM100 | 1 << 61, "swizzle mode"),
        (SM100 & ~(7 << 61) | 5 << 61, "swizzle mode"),
        (SM100 | 7 << 61, "swizzle mode"),
        (SM100 & ~(7 << 61) | 1 << 49, "base offset"),
        (SM90, "bits 46-48"),
    ],
)
def test_planted_faults_of_the_tcgen05_descriptor(bits: int, field: str) -> None:
    found = decode_tcgen05(bits)
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == field


@pytest.mark.parametrize(
    ("bits", "field"),
    [
        (SM90 | 1 << 14, "bits 14-15"),
        (SM90 | 1 << 30, "bits 30-31"),
        (SM90 | 1 << 48, "bits 46-48"),
        (SM90 | 1 << 52, "bits 52-61"),
        (SM90 | 1 << 61, "bits 52-61"),
        (SM90 & ~(3 << 62) | 3 << 49, "base offset"),
        (SM100, "bits 46-48"),
    ],
)
def test_planted_faults_of_the_wgmma_descriptor(bits: int, field: str) -> None:
    found = decode_wgmma(bits)
    assert isinstance(found, Illegal)
    assert found.field == field


def test_absolute_leading_dimension_is_not_supported() -> None:
    assert isinstance(decode_tcgen05(SM100 | 1 << 52), Unsupported)


IDESC = 0x08400490


@pytest.mark.parametrize(
    ("bits", "cta_group", "field"),
    [
        (IDESC | 1, 1, "sparsity selector"),
        (IDESC | 1 << 3, 1, "bit 3"),
        (IDESC | 1 << 6, 1, "bit 6"),
        (IDESC | 1 << 23, 1, "bit 23"),
        (IDESC | 1 << 29, 1, "bit 29"),
        (IDESC | 1 << 30, 1, "bits 30-31"),
        (IDESC | 1 << 5, 1, "dtype"),
        (IDESC | 1 << 8, 1, "atype"),
        (IDESC | 1 << 12, 1, "btype"),
        (IDESC & ~(1 << 4), 1, "atype"),  # D f16 with A bf16
        (IDESC & ~(1 << 4 | 1 << 7), 1, "btype"),  # and with B bf16
        (IDESC & ~(63 << 17), 1, "N"),
        (IDESC | 1 << 17, 1, "N"),  # 264
        (IDESC & ~(31 << 24), 1, "M"),
        (IDESC & ~(31 << 24) | 5 << 24, 1, "M"),
        (IDESC & ~(31 << 24) | 16 << 24, 1, "M"),
        (IDESC & ~(31 << 24) | 4 << 24, 2, "M"),
        (0x10400490 & ~(63 << 17) | 3 << 17, 2, "N"),  # 24
        (0x10400490 & ~(63 << 17) | 1 << 17, 2, "N"),  # 8
    ],
)
def test_planted_faults_of_the_instruction_descriptor(bits: int, cta_group: int, field: str) -> None:
    found = decode_instruction(bits, Kind.F16, cta_group)
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == field


def test_contradictions_with_the_operands_place() -> None:
    transposed = IDESC | 1 << 15
    assert isinstance(decode_instruction(transposed, Kind.F16, 1), InstructionDescriptor)
    found = decode_instruction(transposed, Kind.F16, 1, a_in_tmem=True)
    assert isinstance(found, Illegal)
    assert found.field == "transpose A"


def test_sparse_is_not_supported() -> None:
    assert isinstance(decode_instruction(IDESC | 1 << 2, Kind.F16, 1), Unsupported)


def test_other_kinds_have_other_codes() -> None:
    """Table 42: tf32 has 2, f8f6f4 has 0, 1, 3, 4, 5, both with D of f32 only."""
    tf32 = 0x08400010 | 2 << 7 | 2 << 10
    assert isinstance(decode_instruction(tf32, Kind.TF32, 1), InstructionDescriptor)
    for kind, bits, field in (
        (Kind.TF32, IDESC, "atype"),
        (Kind.TF32, tf32 & ~(1 << 4), "dtype"),
        (Kind.F8F6F4, IDESC & ~(7 << 10) | 2 << 10, "btype"),
        (Kind.F8F6F4, 0x08400010 | 3 << 7 | 1 << 15, "transpose A"),
        (Kind.F8F6F4, 0x08400010 | 5 << 10 | 1 << 16, "transpose B"),
    ):
        found = decode_instruction(bits, kind, 1)
        assert isinstance(found, Illegal)
        assert found.field == field
    e5m2 = decode_instruction(0x08400010 | 1 << 7 | 1 << 15, Kind.F8F6F4, 1)
    assert isinstance(e5m2, InstructionDescriptor)
    assert (e5m2.a, e5m2.b, e5m2.k, e5m2.a_major) == (MmaType.E5M2, MmaType.E4M3, 32, Major.MN)


@pytest.mark.parametrize(
    "wrong",
    [{"address": 0x40000}, {"address": 8}, {"leading": -16}, {"stride": 0x40000}, {"base_offset": 8}],
)
def test_encoding_refuses_what_a_field_cannot_hold(wrong: dict[str, int]) -> None:
    good = SmemDescriptor(address=0, leading=0, stride=0, swizzle=SmemSwizzle.B64)
    for encode in (encode_tcgen05, encode_wgmma):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            encode(replace(good, **wrong))


def test_encoding_refuses_types_of_other_kinds() -> None:
    for wrong in ({"m": 40}, {"m": 512}, {"n": 12}, {"n": 512}, {"a": MmaType.TF32}, {"d": MmaType.BF16}):
        with pytest.raises(ValueError, match="is no"):
            encode_instruction(replace(BF16_128X256, **wrong))
    with pytest.raises(ValueError, match="B128_ATOM32"):
        encode_wgmma(SmemDescriptor(address=0, leading=0, stride=0, swizzle=SmemSwizzle.B128_ATOM32))
