"""The records that cuda/trace.cuh writes, from any kernel that includes it, as a trace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import KernelError
from tilesched.simulator.findings import Finding
from tilesched.simulator.trace import Trace, TraceHeader

from .launch import POISON_BYTE, KernelKind

__all__ = ["POISON_BYTE", "RECORD", "decode_records"]

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


def decode_records(header: TraceHeader, records: npt.NDArray[np.void], counts: npt.NDArray[np.int32]) -> Trace:
    """A trace from the arrays that trace.cuh fills: records (ctas, roles, capacity) and counts (ctas, roles).

    `counts` must have been filled with POISON_BYTE before the launch: what is left of it was never
    opened. Raises KernelError then: the CTA or role did not run.
    """
    unopened = np.argwhere(counts == np.array([POISON_BYTE] * 4, np.uint8).view(np.int32)[0])
    if len(unopened):
        cta, role = (int(index) for index in unopened[0])
        message = f"{len(unopened)} slots were never opened, first CTA {cta} role {header.roles[role]}: it did not run"
        facts = {"slots": len(unopened), "cta": cta, "role": header.roles[role]}
        raise KernelError(Finding(kind=KernelKind.UNOPENED, message=message, facts=facts))
    stored = np.minimum(counts, records.shape[2])
    written = np.arange(records.shape[2]) < stored[:, :, None]
    ctas, roles, _ = np.nonzero(written)
    rows = records[written]
    columns = {"cta": ctas.astype(np.int64), "role": roles.astype(np.int64)}
    columns |= {name: rows[name].astype(np.int64) for name in RECORD.names or ()}
    return Trace(header, columns, counts.astype(np.int64))
