"""The scheduler probe: run the device twin of the persistent scheduler and bring home what every role took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem, require_int32
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.trace import Trace, TraceHeader

from .build import CUDA_DIR, Output, compile_source
from .launch import POISON_BYTE, Gpu

__all__ = ["MAX_RECORDS", "RECORD", "ROLES", "decode_records", "record_probe"]

ROLES = ("tma", "mma", "epilogue")
NUM_THREADS = 256
SCHEDULER = "tilelang.persistent"

MAX_RECORDS = 2**24
"""Slots of one recording: 640 MiB on the device."""

RECORD = np.dtype(
    [
        ("worker", "<i4"),
        ("wave", "<i4"),
        ("linear", "<i4"),
        ("m", "<i4"),
        ("n", "<i4"),
        ("sm", "<i4"),
        ("begin_ns", "<u8"),
        ("end_ns", "<u8"),
    ]
)
"""tilesched::TraceRecord of cuda/trace.cuh."""

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
    probe.cu and its headers lie. Raises InputError without a GPU, or when the recording is too large for it.
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


def decode_records(header: TraceHeader, records: npt.NDArray[np.void], counts: npt.NDArray[np.int32]) -> Trace:
    """A trace from the arrays that trace.cuh fills: records (ctas, roles, capacity) and counts (ctas, roles).

    Raises InputError when a slot was never opened: its CTA or role did not run.
    """
    unopened = np.argwhere(counts == np.array([POISON_BYTE] * 4, np.uint8).view(np.int32)[0])
    if len(unopened):
        cta, role = (int(index) for index in unopened[0])
        raise InputError(f"{len(unopened)} slots were never opened, first CTA {cta} role {header.roles[role]}")
    stored = np.minimum(counts, records.shape[2])
    written = np.arange(records.shape[2]) < stored[:, :, None]
    ctas, roles, _ = np.nonzero(written)
    rows = records[written]
    columns = {"cta": ctas.astype(np.int64), "role": roles.astype(np.int64)}
    columns |= {name: rows[name].astype(np.int64) for name in RECORD.names or ()}
    return Trace(header, columns, counts.astype(np.int64))
