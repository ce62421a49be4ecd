"""Tensor memory: layouts of every ld and st shape against CUTLASS's numbers and by hand, and the allocation rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cute import offset
from tilesched.simulator.ptx.illegal import Illegal, Unsupported
from tilesched.simulator.ptx.tmem import (
    COLUMNS,
    LANES,
    Allocation,
    Cells,
    Granted,
    Shape,
    allocate,
    cells,
    deallocate,
    load,
    relinquish,
    store,
)

FORMS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "tmem_layouts.json").read_text())
SHAPES = {shape.name[1:].lower(): shape for shape in Shape}
LANE_BITS = 1 << 20  # one lane in the layouts' bit numbers: more than 32 · 512


def numbered() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """Tensor memory whose cells hold their own address."""
    lane, column = np.mgrid[0:LANES, 0:COLUMNS]
    return (lane << 16 | column).astype(np.uint32)


def made(found: Cells | Illegal) -> Cells:
    assert isinstance(found, Cells), found
    return found


@pytest.mark.parametrize("form", FORMS)
def test_layout_is_the_one_of_cutlass(form: str) -> None:
    facts = FORMS[form]
    shape, num, *pack = form.split(".")
    lane, warp = 64, 6
    split = facts["split"] or 0
    where = made(cells(SHAPES[shape], int(num[1:]), lane << 16, warp, packed=bool(pack), split=split))
    registers = load(numbered(), where)
    assert registers.shape == (facts["registers"], 32)
    register, thread = np.ogrid[0 : facts["registers"], 0:32]
    expected = np.zeros_like(registers)
    for half in (0, 16):
        bit = offset(*facts["threads"], [thread, 32 * register + half])
        place = offset(*([tree] for tree in facts["bits"]), [bit], {"DP": LANE_BITS})
        cell_lane, cell_bit = place // LANE_BITS, place % LANE_BITS
        cell = (lane + cell_lane) << 16 | cell_bit // 32
        expected |= ((cell >> cell_bit % 32 & 0xFFFF) << half).astype(np.uint32)
    assert (registers == expected).all()


# PTX 9.7.16.2.3.1, figures: (lane, column) of the first repetition's registers of threads 0, 1, 2, 3, 4, 17 and 31.
FIGURES = {
    Shape.S32X32B: [[(0, 0)], [(1, 0)], [(2, 0)], [(3, 0)], [(4, 0)], [(17, 0)], [(31, 0)]],
    Shape.S16X64B: [[(0, 0)], [(8, 0)], [(0, 1)], [(8, 1)], [(1, 0)], [(12, 0)], [(15, 1)]],
    Shape.S16X128B: [
        [(0, 0), (8, 0)],
        [(0, 1), (8, 1)],
        [(0, 2), (8, 2)],
        [(0, 3), (8, 3)],
        [(1, 0), (9, 0)],
        [(4, 1), (12, 1)],
        [(7, 3), (15, 3)],
    ],
    Shape.S16X256B: [
        [(0, 0), (0, 1), (8, 0), (8, 1)],
        [(0, 2), (0, 3), (8, 2), (8, 3)],
        [(0, 4), (0, 5), (8, 4), (8, 5)],
        [(0, 6), (0, 7), (8, 6), (8, 7)],
        [(1, 0), (1, 1), (9, 0), (9, 1)],
        [(4, 2), (4, 3), (12, 2), (12, 3)],
        [(7, 6), (7, 7), (15, 6), (15, 7)],
    ],
    Shape.S16X32BX2: [[(0, 0)], [(1, 0)], [(2, 0)], [(3, 0)], [(4, 0)], [(1, 40)], [(15, 40)]],
}


@pytest.mark.parametrize("shape", Shape)
def test_first_repetition_is_the_figure(shape: Shape) -> None:
    where = made(cells(shape, 1, 32 << 16 | 100, 1, split=40))
    for thread, places in zip((0, 1, 2, 3, 4, 17, 31), FIGURES[shape], strict=True):
        found = list(zip(where.lanes[:, thread] - 32, where.columns[:, thread] - 100, strict=True))
        assert found == places


REGISTERS = {  # PTX table 49: .num -> registers of (16x32bx2, 16x64b, 32x32b), 16x128b, 16x256b
    1: (1, 2, 4),
    2: (2, 4, 8),
    4: (4, 8, 16),
    8: (8, 16, 32),
    16: (16, 32, 64),
    32: (32, 64, 128),
    64: (64, 128, None),
    128: (128, None, None),
}


@pytest.mark.parametrize("shape", Shape)
def test_registers_of_every_num(shape: Shape) -> None:
    column = {Shape.S16X128B: 1, Shape.S16X256B: 2}.get(shape, 0)
    for num, row in REGISTERS.items():
        found = cells(shape, num, 0, 0)
        if row[column] is None:
            assert isinstance(found, Illegal)
            assert found.field == ".num"
        else:
            assert made(found).lanes.shape == (row[column], 32)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", Shape)
def test_a_store_is_undone_by_its_load(shape: Shape, packed: bool) -> None:
    where = made(cells(shape, 4, 96 << 16 | 7, 3, packed=packed, split=64))
    registers = np.random.default_rng(1).integers(0, 2**32, where.lanes.shape[:2], np.uint32)
    tmem = numbered()
    store(tmem, where, registers)
    assert (load(tmem, where) == registers).all()
    untouched = np.ones_like(tmem, bool)
    untouched[where.lanes, where.columns] = False
    assert (tmem[untouched] == numbered()[untouched]).all()
    assert (~untouched).sum() == registers.size * (2 if packed else 1)


@pytest.mark.parametrize(
    ("shape", "num", "address", "warp", "split", "field"),
    [
        (Shape.S32X32B, 3, 0, 0, 0, ".num"),
        (Shape.S32X32B, 1, 32 << 16, 0, 0, "lanes"),
        (Shape.S32X32B, 1, 64 << 16, 5, 0, "lanes"),
        (Shape.S32X32B, 1, 16 << 16, 0, 0, "lanes"),
        (Shape.S16X64B, 1, 32 << 16, 0, 0, "lanes"),
        (Shape.S16X64B, 1, 128 << 16, 3, 0, "lanes"),
        (Shape.S32X32B, 2, 511, 0, 0, "columns"),
        (Shape.S16X256B, 32, 257, 0, 0, "columns"),
        (Shape.S16X32BX2, 1, 0, 0, 512, "columns"),
        (Shape.S16X32BX2, 1, 0, 0, -1, "columns"),
    ],
)
def test_wrong_accesses_name_what_is_wrong(
    shape: Shape, num: int, address: int, warp: int, split: int, field: str
) -> None:
    found = cells(shape, num, address, warp, split=split)
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == field


def test_accesses_at_the_bounds_are_good() -> None:
    made(cells(Shape.S32X32B, 1, 96 << 16 | 511, 7))
    made(cells(Shape.S16X64B, 1, 16 << 16, 0))
    made(cells(Shape.S16X256B, 32, 256, 4))
    assert isinstance(cells(Shape.S32X32B, 1, 511, 0, packed=True), Illegal)
    made(cells(Shape.S32X32B, 1, 510, 0, packed=True))
    assert isinstance(cells(Shape.S16X64B, 1, 8 << 16, 0), Unsupported)


def test_a_lane_below_32_counts_from_the_warps_first() -> None:
    for warp in (0, 1, 6, 7):
        for shape, lane in ((Shape.S32X32B, 0), (Shape.S16X256B, 0), (Shape.S16X256B, 16)):
            own = made(cells(shape, 2, (lane + warp % 4 * 32) << 16 | 9, warp))
            assert (made(cells(shape, 2, lane << 16 | 9, warp)).lanes == own.lanes).all()
    assert isinstance(cells(Shape.S16X256B, 1, 17 << 16, 1), Illegal)


def grant(state: Allocation, columns: int, warp: int = 0) -> Granted:
    granted = allocate(state, columns, warp)
    assert isinstance(granted, Granted), granted
    return granted


def test_allocations_do_not_overlap_and_come_back() -> None:
    first = grant(Allocation(), 256)
    second = grant(first.state, 128)
    third = grant(second.state, 128)
    assert [first.address, second.address, third.address] == [0, 256, 384]
    assert allocate(third.state, 32, 0) is None
    freed = deallocate(third.state, 256, 128)
    assert isinstance(freed, Allocation)
    assert grant(freed, 64).address == 256


@pytest.mark.parametrize("columns", [0, 1, 16, 31, 33, 48, 96, 511, 1024, -32])
def test_columns_are_a_power_of_two_from_32_to_512(columns: int) -> None:
    found = allocate(Allocation(), columns, 0)
    assert isinstance(found, Illegal)
    assert found.field == "nCols"


def test_allocation_rules() -> None:
    small = grant(Allocation(), 64).state
    grown = allocate(small, 128, 0)
    assert isinstance(grown, Illegal)
    assert grown.field == "nCols"
    other = allocate(small, 32, 1)
    assert isinstance(other, Illegal)
    assert other.field == "warp"
    late = allocate(relinquish(small), 32, 0)
    assert isinstance(late, Illegal)
    assert late.field == "permit"
    assert relinquish(relinquish(small)) == relinquish(small)


@pytest.mark.parametrize(
    ("address", "columns", "field"), [(32, 64, "taddr"), (1 << 16, 64, "taddr"), (0, 32, "nCols"), (0, 128, "nCols")]
)
def test_a_dealloc_gives_back_one_whole_allocation(address: int, columns: int, field: str) -> None:
    found = deallocate(grant(Allocation(), 64).state, address, columns)
    assert isinstance(found, Illegal)
    assert found.field == field
