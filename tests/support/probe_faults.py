"""Faults planted in the CUDA sources of the probe: one text substitution each, and what must be said of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tilesched.kernels.build import CUDA_DIR


@dataclass(frozen=True)
class Fault:
    """`before` stands exactly once in tile_scheduler.cuh; `cause` must stand in the finding."""

    name: str
    before: str
    after: str
    cause: str


FAULTS = (
    Fault("wrong_stride", "linear_idx_ += num_workers_;", "linear_idx_ += num_workers_ + 1;", "wrong stride"),
    Fault(
        "wrong_panel_tail",
        "(left < panel_width_ ? left : panel_width_)",
        "panel_width_",
        "wrong panel tail",
    ),
    Fault(
        "off_by_one_worker",
        "linear_idx_ = worker;",
        "linear_idx_ = worker + 1;",
        "off by 1: worker w starts at id w + 1",
    ),
    Fault(
        "one_tile_too_many",
        "return linear_idx_ < num_ids_;",
        "return linear_idx_ < num_ids_ + num_workers_;",
        "goes on after its last tile",
    ),
)


def mutated_sources(fault: Fault, folder: Path) -> Path:
    """A copy of the CUDA sources with the fault in it."""
    target = folder / fault.name
    shutil.copytree(CUDA_DIR, target)
    header = target / "tile_scheduler.cuh"
    text = header.read_text()
    assert text.count(fault.before) == 1, f"{fault.name}: {fault.before!r} stands {text.count(fault.before)} times"
    header.write_text(text.replace(fault.before, fault.after))
    return target
