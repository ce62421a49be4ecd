"""Tensor maps: every rule of cuTensorMapEncodeTiled broken once, beside a map that is good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilesched.simulator.ptx.illegal import Illegal
from tilesched.simulator.ptx.swizzle import SmemSwizzle
from tilesched.simulator.ptx.tensormap import Element, Fill, TensorMap, box_rows, check, smem_chunks

GOOD = TensorMap(
    element=Element.BF16,
    address=0x1_0000,
    dims=(640, 100, 3),
    strides=(1280, 128_000),
    box=(64, 128, 1),
    steps=(1, 1, 1),
    swizzle=SmemSwizzle.B128,
    fill=Fill.NAN,
)


def test_the_good_map_is_good() -> None:
    assert check(GOOD, 100) is None
    assert (GOOD.row_bytes, GOOD.box_bytes, GOOD.counts) == (128, 16384, (64, 128, 1))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"dims": (), "strides": (), "box": (), "steps": ()}, "rank"),
        ({"dims": (1,) * 6, "strides": (16,) * 5, "box": (8,) * 6, "steps": (1,) * 6}, "rank"),
        ({"address": 0x1_0008}, "global_address"),
        ({"address": -16}, "global_address"),
        ({"address": 2**64}, "global_address"),
        ({"dims": (640, 0, 3)}, "global_dim[1]"),
        ({"dims": (640, 100, 2**32 + 1)}, "global_dim[2]"),
        ({"strides": (1288, 128_000)}, "global_stride[0]"),
        ({"strides": (1280, 2**40)}, "global_stride[1]"),
        ({"strides": (-1280, 128_000)}, "global_stride[0]"),
        ({"strides": (1280,)}, "global_stride"),
        ({"box": (64, 128)}, "box_dim"),
        ({"steps": (1, 1)}, "element_stride"),
        ({"box": (64, 0, 1)}, "box_dim[1]"),
        ({"box": (64, 257, 1)}, "box_dim[1]"),
        ({"box": (60, 128, 1)}, "box_dim[0]"),
        ({"box": (72, 128, 1)}, "box_dim[0]"),
        ({"box": (40, 128, 1), "swizzle": SmemSwizzle.B64}, "box_dim[0]"),
        ({"box": (24, 128, 1), "swizzle": SmemSwizzle.B32}, "box_dim[0]"),
        ({"box": (72, 128, 1), "swizzle": SmemSwizzle.B128_ATOM32}, "box_dim[0]"),
        ({"steps": (1, 9, 1)}, "element_stride[1]"),
        ({"steps": (1, 0, 1)}, "element_stride[1]"),
        ({"box": (64, 229, 8)}, "box_dim"),
        ({"element": Element.U16}, "fill_mode"),
    ],
)
def test_each_broken_rule_names_its_field(changes: dict[str, Any], field: str) -> None:
    fault = check(replace(GOOD, **changes), 100)
    assert isinstance(fault, Illegal)
    assert fault.field == field
    assert fault.message.startswith(f"tensor map: {field}=")


@pytest.mark.parametrize(
    "changes",
    [
        {"box": (256, 256, 1), "swizzle": SmemSwizzle.NONE},
        {"box": (64, 228, 8)},
        {"box": (64, 256, 8), "steps": (1, 2, 1)},
        {"strides": (0, 0)},
        {"strides": (128_000, 1280)},
        {"box": (8, 128, 1)},
        {"box": (8, 1, 1), "swizzle": SmemSwizzle.NONE},
        {"box": (32, 128, 1), "swizzle": SmemSwizzle.B64},
        {"box": (16, 128, 1), "swizzle": SmemSwizzle.B32},
        {"box": (64, 128, 1), "swizzle": SmemSwizzle.B128_ATOM32},
        {"dims": (640, 2**32, 1)},
        {"strides": (1280, 2**40 - 16)},
        {"steps": (1, 8, 3)},
        {"dims": (640,), "strides": (), "box": (64,), "steps": (1,)},
        {"element": Element.U16, "fill": Fill.ZERO},
    ],
)
def test_values_at_their_bounds_are_good(changes: dict[str, Any]) -> None:
    assert check(replace(GOOD, **changes), 100) is None


def test_atoms_of_32_bytes_came_with_blackwell() -> None:
    tensor = replace(GOOD, swizzle=SmemSwizzle.B128_ATOM32)
    assert check(tensor, 100) is None
    fault = check(tensor, 90)
    assert isinstance(fault, Illegal)
    assert fault.field == "swizzle_atomicity"


def test_a_misaligned_shared_address_is_illegal() -> None:
    assert isinstance(smem_chunks(GOOD, 0x440), Illegal)
    assert not isinstance(smem_chunks(GOOD, 0x480), Illegal)


def test_driver_and_ptx_number_three_types_differently() -> None:
    """cuda.h beside PTX's table of elemtype values: f64, bf16 and f32 with flush differ."""
    differing = {e.name: (e.driver_code, e.ptx_code) for e in Element if e.driver_code != e.ptx_code}
    assert differing == {"F64": (8, 9), "BF16": (9, 10), "F32_FTZ": (10, 8)}


def test_steps_divide_the_box_upwards() -> None:
    assert replace(GOOD, box=(64, 7, 5), steps=(3, 2, 4)).counts == (64, 4, 2)


def test_hostile_strides_do_not_overflow() -> None:
    tensor = replace(GOOD, dims=(640, 2**32, 2**32), strides=(2**40 - 16, 2**40 - 16))
    rows = box_rows(tensor, (0, 2**31 - 1, 2**31 - 1))
    assert rows.inside.all()
    assert rows.starts.dtype == np.int64


def test_rows_of_three_dimensions_by_hand() -> None:
    """Dimension 1 (stride 1280, every second element) runs before dimension 2 (stride 128,000)."""
    tensor = replace(GOOD, box=(64, 4, 3), steps=(1, 2, 1), dims=(640, 12, 3))
    rows = box_rows(tensor, (-4, 9, 1))
    corner = 0x1_0000 + 9 * 1280 + 128_000
    assert rows.starts.tolist() == [corner + a for a in (0, 2560, 128_000, 130_560, 256_000, 258_560)]
    assert rows.inside.tolist() == [True, True, True, True, False, False]
    assert (rows.skip, rows.size) == (8, 120)
    assert box_rows(tensor, (600, 10, 0)).inside.tolist() == [True, False] * 3
    assert (box_rows(tensor, (600, 10, 0)).skip, box_rows(tensor, (600, 10, 0)).size) == (0, 80)
