"""tcgen05.mma and wgmma: wrong operations name what is wrong, special numbers, lanes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilesched.simulator.ptx.descriptor import InstructionDescriptor, Kind, Major, MmaType, SmemDescriptor
from tilesched.simulator.ptx.illegal import Illegal, Unsupported
from tilesched.simulator.ptx.operand import fetch, operand_chunks
from tilesched.simulator.ptx.swizzle import SmemSwizzle
from tilesched.simulator.ptx.umma import Umma, accumulate, accumulation_error, blocks_of, umma
from tilesched.simulator.ptx.wgmma import Wgmma, wgmma

AT = SmemDescriptor(address=0x400, leading=128, stride=256, swizzle=SmemSwizzle.NONE)
BF16 = InstructionDescriptor(kind=Kind.F16, m=128, n=64, a=MmaType.BF16, b=MmaType.BF16, d=MmaType.F32)
GOOD = Umma(instruction=BF16, cta_group=1, a=AT, b=AT, d=0, input_d=False)
SMEM = [np.zeros(0x4000, np.uint8)]
TMEM = [np.zeros((128, 512), np.uint32)]
LAST = replace(AT, address=0x400 + 0x4000 - 128 * 32)  # its 128 rows of 32 bytes end with shared memory


def test_operations_at_the_bounds_are_good() -> None:
    for changes in (
        {},
        {"d": 512 - 64},
        {"a": 512 - 8},
        {"a": LAST},
        {"scale": 15},
        {"disabled": (0,) * 4},
        {"instruction": replace(BF16, m=64), "d": 16 << 16, "a": 16 << 16},
    ):
        assert isinstance(umma(replace(GOOD, **changes), SMEM, TMEM, 0x400), tuple)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"d": 512 - 63}, "d-tmem columns"),
        ({"a": 512 - 7}, "a-tmem columns"),
        ({"d": 16 << 16}, "d-tmem lane"),
        ({"a": 16 << 16}, "a-tmem lane"),
        ({"instruction": replace(BF16, m=64), "d": 32 << 16}, "d-tmem lane"),
        ({"scale": 16}, "scale-input-d"),
        ({"scale": -1}, "scale-input-d"),
        ({"disabled": (0,) * 8}, "disable-output-lane"),
        ({"disabled": (0,) * 3}, "disable-output-lane"),
        ({"a": replace(LAST, address=LAST.address + 16)}, "addresses"),
        ({"b": replace(LAST, address=LAST.address + 0x800 + 16)}, "addresses"),
        ({"a": replace(AT, address=0x3F0)}, "addresses"),
        ({"a": replace(AT, swizzle=SmemSwizzle.B128_ATOM32)}, "swizzle mode"),
        ({"b": replace(AT, swizzle=SmemSwizzle.B128_ATOM32)}, "swizzle mode"),
    ],
)
def test_wrong_operations_name_what_is_wrong(changes: dict[str, Any], field: str) -> None:
    found = umma(replace(GOOD, **changes), SMEM, TMEM, 0x400)
    assert isinstance(found, Illegal)
    assert not isinstance(found, Unsupported)
    assert found.field == field


def test_a_pairs_mask_has_eight_words() -> None:
    pair = replace(GOOD, instruction=replace(BF16, m=256), cta_group=2, disabled=(0,) * 4)
    found = umma(pair, SMEM * 2, TMEM * 2, 0x400)
    assert isinstance(found, Illegal)
    assert found.field == "disable-output-lane"
    assert isinstance(umma(replace(pair, disabled=(0,) * 8), SMEM * 2, TMEM * 2, 0x400), tuple)


def test_half_the_columns_are_enough_where_a_pair_splits_them() -> None:
    """cta_group::2 with M = 128 keeps N / 2 columns in each half of the lanes (rule 64)."""
    pair = replace(GOOD, instruction=replace(BF16, m=128), cta_group=2)
    assert isinstance(umma(replace(pair, d=512 - 32), SMEM * 2, TMEM * 2, 0x400), tuple)
    found = umma(replace(pair, d=512 - 31), SMEM * 2, TMEM * 2, 0x400)
    assert isinstance(found, Illegal)
    assert found.field == "d-tmem columns"


def test_other_kinds_are_not_computed() -> None:
    tf32 = replace(BF16, kind=Kind.TF32, a=MmaType.TF32, b=MmaType.TF32)
    assert isinstance(umma(replace(GOOD, instruction=tf32), SMEM, TMEM, 0x400), Unsupported)


@pytest.mark.parametrize(
    ("m", "cta_group", "row", "column", "place"),
    [
        (128, 1, 77, 5, (0, 77, 5)),
        (64, 1, 15, 5, (0, 15, 5)),
        (64, 1, 16, 5, (0, 32, 5)),
        (64, 1, 63, 63, (0, 111, 63)),
        (256, 2, 127, 0, (0, 127, 0)),
        (256, 2, 128, 63, (1, 0, 63)),
        (128, 2, 63, 31, (0, 63, 31)),
        (128, 2, 63, 32, (0, 127, 0)),
        (128, 2, 64, 33, (1, 64, 1)),
    ],
)
def test_accumulators_are_in_their_lanes(
    m: int, cta_group: int, row: int, column: int, place: tuple[int, int, int]
) -> None:
    found = [
        (cta, block.lanes[row - block.rows.start], column - block.columns.start)
        for cta, blocks in enumerate(blocks_of(m, 64, cta_group))
        for block in blocks
        if block.rows.start <= row < block.rows.stop and block.columns.start <= column < block.columns.stop
    ]
    assert found == [place]


def test_infinities_and_nans_are_those_of_ieee() -> None:
    a = np.array([[np.inf, 1.0], [np.nan, 0.0], [1.0, 1.0], [2.0**127, 2.0**127]])
    b = np.array([[0.0, 1.0], [1.0, 1.0]])
    found = accumulate(a, b, None, MmaType.F32)
    assert found.dtype == np.float32
    assert np.isnan(found[:2, 0]).all()
    assert np.isposinf(found[0, 1])
    assert found[2].tolist() == [1.0, 2.0]
    assert np.isposinf(found[3, 1])
    assert np.isposinf(accumulate(np.array([[65504.0, 32.0]]), np.ones((1, 2)), None, MmaType.F16)).all()


def test_a_sum_is_rounded_once() -> None:
    """2^24 + 1 + 1 in float32 steps stays 2^24; exactly it is 2^24 + 2."""
    found = accumulate(np.array([[2.0**24, 1.0, 1.0]]), np.ones((1, 3)), None, MmaType.F32)
    assert found.tolist() == [[2.0**24 + 2]]


def test_the_stated_error_grows_with_the_instructions() -> None:
    assert accumulation_error(np.ones(1), 3).tolist() == [54 * 2.0**-23]
    assert accumulation_error(np.ones(1), 1, MmaType.F16).tolist() == [18 * 2.0**-10]


WG = Wgmma(n=64, kind=MmaType.F16, d=MmaType.F32)
D = np.zeros((32, 128), np.uint32)
REGISTERS = np.zeros((4, 128), np.uint32)


@pytest.mark.parametrize(
    ("operation", "a", "b", "field"),
    [
        (replace(WG, n=0), AT, AT, "N"),
        (replace(WG, n=12), AT, AT, "N"),
        (replace(WG, n=264), AT, AT, "N"),
        (replace(WG, kind=MmaType.BF16, d=MmaType.F16), AT, AT, "dtype"),
        (replace(WG, a_major=Major.MN), REGISTERS, AT, "imm-trans-a"),
        (WG, replace(AT, address=0), AT, "addresses"),
        (WG, AT, replace(AT, address=0x8000), "addresses"),
    ],
)
def test_wrong_wgmmas_name_what_is_wrong(operation: Wgmma, a: Any, b: SmemDescriptor, field: str) -> None:
    found = wgmma(operation, a, b, D, SMEM[0], 0x400)
    assert isinstance(found, Illegal)
    assert found.field == field


def test_good_wgmmas() -> None:
    assert isinstance(wgmma(WG, REGISTERS, AT, D, SMEM[0], 0x400), np.ndarray)
    assert isinstance(wgmma(replace(WG, a_major=Major.MN), AT, AT, D, SMEM[0], 0x400), np.ndarray)


def test_an_operand_that_fits_exactly_is_fetched() -> None:
    assert isinstance(fetch(SMEM[0], 0x400, LAST, Major.K, (128, 16), MmaType.F16), np.ndarray)
    found = fetch(SMEM[0], 0x400, LAST, Major.K, (136, 16), MmaType.F16)
    assert isinstance(found, Illegal)


def test_chunks_are_shared_and_read_only() -> None:
    chunks = operand_chunks(AT, Major.K, 64, 16)
    assert isinstance(chunks, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        chunks[0, 0] = 0
