"""The scheduler probe: run the device twin of the persistent scheduler and bring home what every role took."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem, require_int32
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.trace import Trace, TraceHeader

from .build import CUDA_DIR, Output, compile_source
from .launch import Gpu
from .recorder import RECORD, decode_records

__all__ = ["MAX_RECORDS", "ROLES", "record_probe"]

ROLES = ("tma", "mma", "epilogue")
NUM_THREADS = 256
SCHEDULER = "tilelang.persistent"

MAX_RECORDS = 2**22
"""Room for records of one recording: 160 MiB on the device, and within what a trace file may hold."""

_ORDER_CODES = {RasterOrder.PANEL_N: 0, RasterOrder.PANEL_M: 1}  # tilesched::RasterOrder


def record_probe(
    problem: Problem,
    options: Options,
    *,
    capacity: int | None = None,
    cuda_dir: Path = CUDA_DIR,
    provenance: str = "",
) -> Trace:
    """Run the probe on the GPU and return its trace.

    `capacity`: records per (CTA, role), by default the most that any worker takes in the model. `cuda_dir`: where
    probe.cu and its headers lie. Raises InputError without a GPU, or when the recording is
    too large, KernelError when the kernel fails or a part of it does not run.
    """
    schedule = get(SCHEDULER).build(problem, options)
    params = {name: schedule.params[name] for name in ("panel_width", "raster", "num_workers", "launched")}
    ctas = schedule.num_workers * problem.cluster_size
    slots = ctas * len(ROLES)
    capacity = max(schedule.num_waves, 1) if capacity is None else capacity
    require_int32("capacity", capacity)
    if slots * capacity > MAX_RECORDS:
        raise InputError(f"ctas*roles*capacity={slots * capacity} is outside [1, {MAX_RECORDS}]")
    gpu = Gpu()
    cubin = compile_source(cuda_dir / "probe.cu", gpu.arch, Output.CUBIN)
    records = np.zeros((ctas, len(ROLES), capacity), RECORD)
    counts = np.zeros((ctas, len(ROLES)), np.int32)
    gpu.run(
        cubin,
        "tilesched_probe",
        grid=ctas,
        block=NUM_THREADS,
        scalars=[
            problem.clusters_m,
            problem.tiles_n,
            problem.cluster_m,
            int(params["num_workers"]),
            int(params["panel_width"]),
            _ORDER_CODES[RasterOrder(str(params["raster"]))],
        ],
        outputs=[records, counts],
        trailing=[capacity],
    )
    header = TraceHeader(
        kernel="probe",
        source="gpu",
        roles=ROLES,
        ctas=ctas,
        problem=problem,
        scheduler=SCHEDULER,
        params=params,
        capacity=capacity,
        device=gpu.describe(),
        provenance=provenance,
    )
    return decode_records(header, records, counts)
