"""Record the traces that CI verifies: `python tests/gpu/refresh_traces.py FOLDER` on a machine with a GPU.

Writes the correct recordings and one for each planted fault, with where they come from in their headers.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from probe_faults import FAULTS, mutated_sources
from tilesched.kernels.probe import record_probe
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options
from tilesched.simulator.trace_codec import save

CORRECT = {
    "narrow_panel": (Problem(m=512, n=2304, k=512), Options(panel_width=8, num_workers=3)),
    "pair_odd_rows": (Problem(m=640, n=768, k=512, cluster_m=2), Options(panel_width=2, num_workers=4)),
    "panel_m": (Problem(m=900, n=1500, k=100), Options(panel_width=3, raster=RasterOrder.PANEL_M, num_workers=5)),
    "few_tiles": (Problem(m=100, n=300, k=64), Options(num_workers=6)),
}
FAULTY = Problem(m=10 * 128, n=13 * 256, k=512), Options(panel_width=4, num_workers=7)


def main(folder: Path) -> None:
    provenance = f"python tests/gpu/refresh_traces.py, {time.strftime('%Y-%m-%d')}"
    for name, (problem, options) in CORRECT.items():
        save(record_probe(problem, options, provenance=provenance), str(folder / f"correct_{name}.npz"))
    problem, options = FAULTY
    with tempfile.TemporaryDirectory() as scratch:
        for fault in FAULTS:
            sources = mutated_sources(fault, Path(scratch))
            text = f"{provenance}; planted fault: {fault.before!r} became {fault.after!r}"
            trace = record_probe(problem, options, capacity=40, cuda_dir=sources, provenance=text)
            save(trace, str(folder / f"fault_{fault.name}.npz"))
    save(record_probe(problem, options, capacity=9, provenance=provenance), str(folder / "fault_overflow.npz"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
