"""TMA boxes against an element-by-element twin, written from the driver API's description."""

from __future__ import annotations

import itertools
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.ptx.swizzle import SmemSwizzle, swizzle, swizzle_address
from tilesched.simulator.ptx.tensormap import (
    Element,
    Fill,
    TensorMap,
    box_rows,
    check,
    read_box,
    smem_chunks,
    write_box,
)

ORIGIN = 0x7F00_0000


@st.composite
def tensor_maps(draw: st.DrawFn) -> tuple[TensorMap, tuple[int, ...]]:
    """A small legal map and a corner that may lie outside of it in any direction."""
    element = draw(st.sampled_from(Element))
    mode = draw(st.sampled_from(SmemSwizzle))
    spans = [16, 32, 48, 144] if mode is SmemSwizzle.NONE else [mode.span, *range(16, mode.span, 16)]
    span = draw(st.sampled_from(spans))
    rank = draw(st.integers(1, 5))
    outer = rank - 1
    dims = (draw(st.integers(1, 40)), *draw(st.tuples(*[st.integers(1, 4)] * outer)))
    box = (span // element.size, *draw(st.tuples(*[st.integers(1, 4)] * outer)))
    steps = (1, *draw(st.tuples(*[st.integers(1, 3)] * outer)))
    strides = []
    reach = dims[0] * element.size
    for size in dims[1:]:
        strides.append(-(-reach // 16) * 16 + 16 * draw(st.integers(0, 2)))
        reach = strides[-1] * size
    fill = draw(st.sampled_from(Fill)) if element.floating else Fill.ZERO
    address = ORIGIN + 16 * draw(st.integers(0, 3))
    corner = tuple(draw(st.integers(-b - 1, d + 1)) for b, d in zip(box, dims, strict=True))
    tensor = TensorMap(
        element=element,
        address=address,
        dims=dims,
        strides=tuple(strides),
        box=box,
        steps=steps,
        swizzle=mode,
        fill=fill,
    )
    return tensor, corner


def memory_of(tensor: TensorMap) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    reach = tensor.dims[0] * tensor.element.size + sum(
        (d - 1) * s for d, s in zip(tensor.dims[1:], tensor.strides, strict=True)
    )
    size = tensor.address - ORIGIN + reach + 64
    return np.random.default_rng(size).integers(1, 255, size, np.uint8)


def naive_elements(tensor: TensorMap, corner: tuple[int, ...]) -> list[tuple[int, int | None]]:
    """(offset in the dense box, global address or None if outside) of every element, innermost fastest."""
    result = []
    counts = [-(-b // s) for b, s in zip(tensor.box, tensor.steps, strict=True)]
    for number, reverse in enumerate(itertools.product(*(range(n) for n in reversed(counts)))):
        place = [c + i * s for c, i, s in zip(corner, reversed(reverse), tensor.steps, strict=True)]
        address = tensor.address + place[0] * tensor.element.size
        for i in range(1, len(place)):
            address += place[i] * tensor.strides[i - 1]
        inside = all(0 <= p < d for p, d in zip(place, tensor.dims, strict=True))
        result.append((number * tensor.element.size, address if inside else None))
    return result


def naive_tf32(element: bytes) -> bytes:
    """The nearest float whose low 13 bits are zero, the even one of two."""
    (word,) = struct.unpack("<I", element)
    sign, magnitude = word & 1 << 31, word & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return struct.pack("<I", 0x7FFFE000)
    below = magnitude >> 13
    up = (magnitude & 0x1FFF, below % 2) > (0x1000, 0)
    return struct.pack("<I", sign | (below + up) << 13)


@given(tensor_maps(), st.integers(0, 15))
def test_a_load_puts_every_byte_where_the_twin_says(drawn: tuple[TensorMap, tuple[int, ...]], slot: int) -> None:
    tensor, corner = drawn
    assert check(tensor, 100) is None
    memory = memory_of(tensor)
    base = 0x400 + 128 * slot
    chunks = smem_chunks(tensor, base)
    assert isinstance(chunks, np.ndarray)
    smem = np.full(base + 128 * 4**4 + 1024, 0xEE, np.uint8)
    rows = box_rows(tensor, corner)
    data = read_box(tensor, rows, memory, ORIGIN)
    smem.reshape(-1, 16)[chunks >> 4] = data

    expected = np.full_like(smem, 0xEE)
    filler = (b"\xf7\x7f" if tensor.fill is Fill.NAN else b"\0\0") * 4
    touched = set()
    row = tensor.box[0] * tensor.element.size
    pitch = row if tensor.swizzle is SmemSwizzle.NONE else tensor.swizzle.span
    for offset, address in naive_elements(tensor, corner):
        element = filler
        if address is not None:
            element = memory[address - ORIGIN : address - ORIGIN + tensor.element.size].tobytes()
            touched.update(range(address, address + tensor.element.size))
            if tensor.element in (Element.TF32, Element.TF32_FTZ):
                element = naive_tf32(element)
        for byte in range(tensor.element.size):
            expected[swizzle_address(tensor.swizzle, base + offset // row * pitch + offset % row + byte)] = element[
                byte
            ]
    assert (smem == expected).all()
    assert {int(start) + i for start in rows.touched for i in range(rows.size)} == touched
    assert bool(len(rows.touched)) == bool(touched)


@given(tensor_maps())
def test_a_store_writes_inside_and_nowhere_else(drawn: tuple[TensorMap, tuple[int, ...]]) -> None:
    tensor, corner = drawn
    memory = memory_of(tensor)
    data = np.random.default_rng(7).integers(1, 255, tensor.box_bytes, np.uint8)
    expected = memory.copy()
    for offset, address in naive_elements(tensor, corner):
        if address is not None:
            where = address - ORIGIN
            expected[where : where + tensor.element.size] = data[offset : offset + tensor.element.size]
    write_box(box_rows(tensor, corner), data.reshape(-1, 16), memory, ORIGIN)
    assert (memory == expected).all()


@given(st.sampled_from(SmemSwizzle), st.integers(0, 2**18 - 1), st.integers(0, 7))
def test_a_swizzle_is_its_own_inverse_and_stays_in_its_atom_row(mode: SmemSwizzle, address: int, base: int) -> None:
    there = swizzle_address(mode, address, base)
    assert swizzle_address(mode, there, base) == address
    assert there // mode.span == address // mode.span
    assert there % mode.atom == address % mode.atom
    assert swizzle(mode, np.array([address], np.int64), base).tolist() == [there]
