"""Descriptors: decode undoes encode, and every 64 or 32 bits are one or the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
from tilesched.simulator.ptx.illegal import Illegal
from tilesched.simulator.ptx.swizzle import SmemSwizzle

places = st.integers(0, 2**14 - 1).map(lambda word: word << 4)


@st.composite
def smem_descriptors(draw: st.DrawFn) -> SmemDescriptor:
    mode = draw(st.sampled_from(SmemSwizzle))
    return SmemDescriptor(
        address=draw(places),
        leading=draw(places),
        stride=draw(places),
        swizzle=mode,
        base_offset=0 if mode is SmemSwizzle.NONE else draw(st.integers(0, 7)),
    )


@st.composite
def instructions(draw: st.DrawFn) -> tuple[InstructionDescriptor, int]:
    kind = draw(st.sampled_from(Kind))
    cta_group = draw(st.sampled_from((1, 2)))
    d = draw(st.sampled_from(sorted(kind.outputs.values(), key=lambda one: one.value)))
    inputs = sorted(kind.inputs.values(), key=lambda one: one.value)
    types = st.just(MmaType.F16) if d is MmaType.F16 else st.sampled_from(inputs)
    a, b = draw(types), draw(types)
    step = 8 * cta_group
    wide = {MmaType.F16, MmaType.BF16, MmaType.TF32, MmaType.E4M3, MmaType.E5M2}
    majors = {one: st.sampled_from(Major) if one in wide else st.just(Major.K) for one in (a, b)}
    made = InstructionDescriptor(
        kind=kind,
        m=draw(st.sampled_from((64, 128))) * cta_group,
        n=step * draw(st.integers(1, 256 // step)),
        a=a,
        b=b,
        d=d,
        a_major=draw(majors[a]),
        b_major=draw(majors[b]),
        negate_a=draw(st.booleans()),
        negate_b=draw(st.booleans()),
    )
    return made, cta_group


@given(smem_descriptors())
def test_decode_undoes_encode_for_operands(one: SmemDescriptor) -> None:
    assert decode_tcgen05(encode_tcgen05(one)) == one
    if one.swizzle is not SmemSwizzle.B128_ATOM32:
        assert decode_wgmma(encode_wgmma(one)) == one


@given(instructions())
def test_decode_undoes_encode_for_instructions(drawn: tuple[InstructionDescriptor, int]) -> None:
    made, cta_group = drawn
    assert decode_instruction(encode_instruction(made), made.kind, cta_group) == made


@given(st.integers(0, 2**64 - 1))
def test_any_64_bits_are_illegal_or_survive(bits: int) -> None:
    """No bit is ignored: what decodes encodes to the same bits."""
    for decode, encode in ((decode_tcgen05, encode_tcgen05), (decode_wgmma, encode_wgmma)):
        found = decode(bits)
        assert isinstance(found, Illegal) or encode(found) == bits


@given(smem_descriptors(), st.integers(0, 63))
def test_any_flipped_bit_is_seen_or_survives(one: SmemDescriptor, flipped: int) -> None:
    bits = encode_tcgen05(one) ^ 1 << flipped
    found = decode_tcgen05(bits)
    assert isinstance(found, Illegal) or encode_tcgen05(found) == bits


@given(instructions(), st.integers(0, 31))
def test_any_flipped_bit_of_an_instruction_is_seen_or_survives(
    drawn: tuple[InstructionDescriptor, int], flipped: int
) -> None:
    made, cta_group = drawn
    bits = encode_instruction(made) ^ 1 << flipped
    found = decode_instruction(bits, made.kind, cta_group)
    assert isinstance(found, Illegal) or encode_instruction(found) == bits
