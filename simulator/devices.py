"""SM counts of real GPUs, as shipped devices report them (not those of the full die)."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputError

__all__ = ["DEVICES", "Device", "device"]


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU: streaming multiprocessors that a kernel sees, compute capability, and where the count is from."""

    name: str
    sm_count: int
    compute_capability: tuple[int, int]
    source: str


_H100 = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
_AMPERE = "NVIDIA A100 Tensor Core GPU Architecture whitepaper"
_REPORTS = "public reports of the device's multiProcessorCount"

DEVICES = {
    item.name: item
    for item in (
        Device("b200", 148, (10, 0), _REPORTS),
        Device("b300", 148, (10, 3), _REPORTS + "; the full die has 160"),
        Device("gb200", 152, (10, 0), _REPORTS),
        Device("gb300", 152, (10, 3), _REPORTS + "; the full die has 160"),
        Device("rtx-pro-6000", 188, (12, 0), _REPORTS + " (Blackwell editions)"),
        Device("rtx-5090", 170, (12, 0), "NVIDIA RTX Blackwell GPU Architecture whitepaper"),
        Device("h200", 132, (9, 0), "measured: cudaDevAttrMultiProcessorCount on this project's H200"),
        Device("gh200", 132, (9, 0), _H100 + " (the SXM5 configuration of GH100)"),
        Device("h100", 132, (9, 0), _H100 + " (SXM5)"),
        Device("h100-pcie", 114, (9, 0), _H100 + " (PCIe)"),
        Device("h20", 78, (9, 0), _REPORTS),
        Device("rtx-4090", 128, (8, 9), "NVIDIA Ada GPU Architecture whitepaper"),
        Device("a100", 108, (8, 0), _AMPERE),
        Device("v100", 80, (7, 0), "NVIDIA Tesla V100 GPU Architecture whitepaper"),
        Device("t4", 40, (7, 5), "NVIDIA Turing GPU Architecture whitepaper"),
    )
}


def device(name: str) -> Device:
    """The device of that name, in any case, spaces and underscores as hyphens; InputError with the nearest."""
    key = "-".join(name.lower().replace("_", " ").split())
    if key in DEVICES:
        return DEVICES[key]
    from difflib import get_close_matches

    near = get_close_matches(key, DEVICES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(DEVICES)}"
    raise InputError(f"device={name!r} is unknown; {hint}")
