"""What an H200 and its driver answered (tests/data/README.md), beside what the PTX machine's functions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilesched.simulator.ptx.descriptor import Major, SmemDescriptor
from tilesched.simulator.ptx.operand import operand_chunks
from tilesched.simulator.ptx.swizzle import SmemSwizzle
from tilesched.simulator.ptx.tensormap import Element, Fill, TensorMap, box_rows, check, read_box, smem_chunks

DATA = Path(__file__).parents[1] / "data"
FACTS: dict[str, Any] = json.loads((DATA / "h200_tensor_maps.json").read_text())
ELEMENTS = {element.driver_code: element for element in Element}
SWIZZLES = {0: SmemSwizzle.NONE, 1: SmemSwizzle.B32, 2: SmemSwizzle.B64, 3: SmemSwizzle.B128}
WGMMA = {0: SmemSwizzle.NONE, 1: SmemSwizzle.B128, 2: SmemSwizzle.B64, 3: SmemSwizzle.B32}


def tensor_map(case: dict[str, Any]) -> TensorMap | None:
    """None for codes that the model has no value for: packed types, interleave, and numbers that mean nothing."""
    known = case["type"] in ELEMENTS and case["swizzle"] in (*SWIZZLES, 4) and case["fill"] in (0, 1)
    if case["interleave"] or not known:
        return None
    return TensorMap(
        element=ELEMENTS[case["type"]],
        address=case["address"],
        dims=tuple(case["dims"]),
        strides=tuple(case["strides"]),
        box=tuple(case["box"]),
        steps=tuple(case["steps"]),
        swizzle={**SWIZZLES, 4: SmemSwizzle.B128_ATOM32}[case["swizzle"]],
        fill=Fill(case["fill"]),
    )


@pytest.mark.parametrize("case", FACTS["maps"], ids=lambda case: str(list(case.values())).replace(" ", ""))
def test_we_accept_what_the_driver_accepts(case: dict[str, Any]) -> None:
    tensor = tensor_map(case)
    if tensor is None:
        assert case["interleave"] == 1 or not case["accepted"]
    else:
        assert (check(tensor, 90) is None) == case["accepted"]


def test_the_driver_was_asked_both_ways() -> None:
    answers = [case["accepted"] for case in FACTS["maps"] if tensor_map(case)]
    assert answers.count(True) >= 30
    assert answers.count(False) >= 25


@pytest.mark.parametrize("case", FACTS["boxes"], ids=lambda case: f"{case['swizzle']}-{case['row_elements']}")
def test_rows_of_boxes_lie_where_the_gpu_put_them(case: dict[str, Any]) -> None:
    """Four rows of a matrix of 64 columns, also shorter than the swizzle. The GPU's memory began at 1024."""
    box = (case["row_elements"], 4)
    tensor = TensorMap(
        element=Element.BF16,
        address=0,
        dims=(64, 99),
        strides=(128,),
        box=box,
        steps=(1, 1),
        swizzle=SWIZZLES[case["swizzle"]],
    )
    chunks = smem_chunks(tensor, 1024 + case["smem"])
    assert isinstance(chunks, np.ndarray)
    matrix = np.arange(64 * 99, dtype=np.uint16).view(np.uint8)
    first = read_box(tensor, box_rows(tensor, (0, 0)), matrix, 0).view("<u2")[:, 0]
    assert sorted(zip((chunks - 1024).tolist(), first.tolist(), strict=True)) == [tuple(one) for one in case["chunks"]]


def test_tf32_is_rounded_as_the_gpu_rounds() -> None:
    words = np.array([word for word, _ in FACTS["tf32"]] + [0] * 6, np.uint32)
    for element in (Element.TF32, Element.TF32_FTZ, Element.F32, Element.F32_FTZ):
        tensor = TensorMap(element=element, address=0, dims=(32,), strides=(), box=(32,), steps=(1,))
        found = read_box(tensor, box_rows(tensor, (0,)), words.view(np.uint8), 0).view("<u4").reshape(-1)
        plain = element in (Element.F32, Element.F32_FTZ)
        assert found[:26].tolist() == [before if plain else after for before, after in FACTS["tf32"]]


@pytest.mark.parametrize("element", [element for element in Element if element.floating])
def test_the_nan_outside_is_the_gpus(element: Element) -> None:
    box = (32 // element.size,)
    tensor = TensorMap(element=element, address=0, dims=(8,), strides=(), box=box, steps=(1,), fill=Fill.NAN)
    data = read_box(tensor, box_rows(tensor, (5000,)), np.zeros(0, np.uint8), 0)
    assert (data.view("<u2") == FACTS["nan"]).all()


def test_operands_are_fetched_from_where_the_gpu_fetches_them() -> None:
    """B of wgmma.m64n128k16 under 48 random descriptors: any start, offsets, swizzle, major-ness and base offset."""
    recorded = np.load(DATA / "h200_wgmma_operands.npz")
    base_offsets = 0
    for case, chunks in zip(recorded["descriptors"].tolist(), recorded["chunks"], strict=True):
        major, code, address, leading, stride, base_offset = case
        descriptor = SmemDescriptor(
            address=1024 + address, leading=leading, stride=stride, swizzle=WGMMA[code], base_offset=base_offset
        )
        found = operand_chunks(descriptor, Major(major), 128, 16)
        assert isinstance(found, np.ndarray)
        assert ((found.reshape(-1) - 1024) // 16 == chunks).all(), case
        base_offsets += base_offset > 0
    assert base_offsets == 18
