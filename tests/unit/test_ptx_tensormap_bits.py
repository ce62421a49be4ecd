"""The machine's own 128 bytes of a tensor map, and maps that a kernel makes with tensormap.replace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.ptx.illegal import Illegal, Unsupported
from tilesched.simulator.ptx.swizzle import SmemSwizzle
from tilesched.simulator.ptx.tensormap import Element, Fill, TensorMap, check
from tilesched.simulator.ptx.tensormap_bits import SIZE, pack, replace_field, unpack

MAP = TensorMap(
    element=Element.BF16,
    address=0x7F00_0000_0010,
    dims=(640, 2**32, 3),
    strides=(1280, 2**40 - 16),
    box=(64, 128, 1),
    steps=(1, 2, 8),
    swizzle=SmemSwizzle.B128,
    fill=Fill.NAN,
)


@given(st.sampled_from(Element), st.sampled_from(SmemSwizzle), st.sampled_from(Fill), st.integers(1, 5), st.data())
def test_unpack_undoes_pack(element: Element, mode: SmemSwizzle, fill: Fill, rank: int, data: st.DataObject) -> None:
    def some(most: int, length: int) -> tuple[int, ...]:
        return data.draw(st.tuples(*[st.integers(0, most)] * length))

    tensor = TensorMap(
        element=element,
        address=data.draw(st.integers(0, 2**64 - 1)),
        dims=some(2**33, rank),
        strides=some(2**64 - 1, rank - 1),
        box=some(2**32 - 1, rank),
        steps=some(2**32 - 1, rank),
        swizzle=mode,
        fill=fill,
    )
    packed = pack(tensor)
    assert len(packed) == SIZE
    assert unpack(packed) == tensor


def test_a_kernel_builds_a_map_from_zeros() -> None:
    """The order and the values of Triton's device-side descriptors: rank less one, PTX's code of bf16, 128 bytes."""
    data: bytes | Illegal = bytes(SIZE)
    assert unpack(bytes(SIZE)) == replace(
        MAP, element=Element.U8, address=0, dims=(0,), strides=(), box=(0,), steps=(0,), swizzle=SmemSwizzle.NONE,
        fill=Fill.ZERO,
    )  # fmt: skip
    for field, value, index in (
        ("global_address", 0x1000, None),
        ("rank", 1, None),
        ("box_dim", 64, 0),
        ("box_dim", 128, 1),
        ("global_dim", 512, 0),
        ("global_dim", 256, 1),
        ("global_stride", 1024, 0),
        ("element_stride", 1, 0),
        ("element_stride", 1, 1),
        ("elemtype", 10, None),
        ("interleave_layout", 0, None),
        ("swizzle_mode", 3, None),
        ("fill_mode", 0, None),
    ):
        assert isinstance(data, bytes)
        data = replace_field(data, field, value, index)
    assert isinstance(data, bytes)
    made = unpack(data)
    assert made == TensorMap(
        element=Element.BF16,
        address=0x1000,
        dims=(512, 256),
        strides=(1024,),
        box=(64, 128),
        steps=(1, 1),
        swizzle=SmemSwizzle.B128,
    )
    assert check(made, 90) is None
    assert pack(made) == data


@pytest.mark.parametrize(
    ("field", "value", "index", "named"),
    [
        ("rank", 5, None, "rank"),
        ("rank", 1, 0, "rank ordinal"),
        ("elemtype", 16, None, "elemtype"),
        ("interleave_layout", 3, None, "interleave_layout"),
        ("swizzle_mode", 5, None, "swizzle_mode"),
        ("swizzle_atomicity", 4, None, "swizzle_atomicity"),
        ("fill_mode", 2, None, "fill_mode"),
        ("global_stride", 16, 4, "global_stride ordinal"),
        ("global_dim", 16, 5, "global_dim ordinal"),
        ("global_dim", 16, None, "global_dim ordinal"),
        ("global_dim", 2**32, 0, "global_dim"),
        ("global_address", 2**64, None, "global_address"),
        ("global_stride", 2**64, 3, "global_stride"),
        ("box_dim", 16, -1, "box_dim ordinal"),
        ("element_stride", -1, 0, "element_stride"),
        ("oob", 0, None, "field"),
    ],
)
def test_replace_refuses_what_does_not_exist(field: str, value: int, index: int | None, named: str) -> None:
    found = replace_field(pack(MAP), field, value, index)
    assert isinstance(found, Illegal)
    assert found.field == named


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("elemtype", 13, Unsupported),
        ("interleave_layout", 1, Unsupported),
        ("swizzle_mode", 4, Unsupported),
        ("swizzle_atomicity", 2, Unsupported),
        ("swizzle_atomicity", 3, Unsupported),
    ],
)
def test_what_is_not_modelled_is_said(field: str, value: int, kind: type[Illegal]) -> None:
    changed = replace_field(pack(MAP), field, value)
    assert isinstance(changed, bytes)
    found = unpack(changed)
    assert isinstance(found, kind)
    assert field in found.field


@pytest.mark.parametrize(
    ("byte", "value", "field"),
    [
        (120, 5, "rank"),
        (121, 16, "elemtype"),
        (122, 3, "interleave_layout"),
        (123, 5, "swizzle_mode"),
        (124, 4, "swizzle_atomicity"),
        (125, 2, "fill_mode"),
        (126, 1, "bytes 126-127"),
        (127, 1, "bytes 126-127"),
    ],
)
def test_bytes_with_a_code_that_does_not_exist(byte: int, value: int, field: str) -> None:
    data = bytearray(pack(MAP))
    data[byte] = value
    found = unpack(bytes(data))
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == field


def test_atoms_need_128_bytes() -> None:
    changed = replace_field(pack(replace(MAP, swizzle=SmemSwizzle.B128_ATOM32)), "swizzle_mode", 2)
    assert isinstance(changed, bytes)
    found = unpack(changed)
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == "swizzle_atomicity"


@given(st.binary(min_size=SIZE, max_size=SIZE))
def test_any_128_bytes_are_illegal_or_a_map(data: bytes) -> None:
    found = unpack(data)
    assert isinstance(found, Illegal) or pack(found) is not None


@given(st.integers(0, 8 * SIZE - 1))
def test_any_flipped_bit_changes_the_map_or_is_refused(bit: int) -> None:
    data = bytearray(pack(replace(MAP, dims=(1,) * 5, strides=(16,) * 4, box=(64,) * 5, steps=(1,) * 5)))
    before = unpack(bytes(data))
    data[bit // 8] ^= 1 << bit % 8
    assert unpack(bytes(data)) != before


def test_a_value_that_no_field_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="tensor map"):
        pack(replace(MAP, address=-16))
