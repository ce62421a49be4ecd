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
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper"

# Devices of one die differ: 160 SMs (full B200 or B300 die), 148 (HGX boards) and 152 (Grace superchips) are all quoted
# for Blackwell. What a kernel sees is what cudaGetDeviceProperties reports, so a report of that wins over a data sheet.
DEVICES = {
    item.name: item
    for item in (
        Device("b200", 148, (10, 0), "device query in github.com/pytorch/ao/pull/4002"),
        Device("b300", 148, (10, 3), "B300 SXM6 AC in the README of github.com/Antoniomv7/gb300-microbench"),
        Device("gb200", 152, (10, 0), "github.com/ByteDance-Seed/VeOmni/pull/986"),
        Device("gb300", 152, (10, 3), "github.com/facebookexperimental/triton/pull/2768"),
        Device("rtx-pro-6000", 188, (12, 0), "NVIDIA RTX PRO Blackwell GPU Architecture whitepaper, table 1"),
        Device("rtx-5090", 170, (12, 0), _RTX_BLACKWELL + "; github.com/thu-ml/SageAttention/pull/379"),
        Device("rtx-5080", 84, (12, 0), _RTX_BLACKWELL + "; github.com/thu-ml/SageAttention/pull/379"),
        Device("h200", 132, (9, 0), "measured: cudaDevAttrMultiProcessorCount on this project's H200"),
        Device("gh200", 132, (9, 0), "OpenCL query in github.com/mredenti/PowerCapping, OpenCL_benchmark.md"),
        Device("h100", 132, (9, 0), _H100 + " (SXM5)"),
        Device("h100-pcie", 114, (9, 0), _H100 + " (PCIe)"),
        Device("h20", 78, (9, 0), "github.com/inclusionAI/humming/pull/76"),
        Device("l4", 58, (8, 9), "deviceQuery in github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/139"),
        Device("rtx-4090", 128, (8, 9), "deviceQuery in github.com/thamada/nvidia-smi, RTX4090_deviceQuery.py"),
        Device("a100", 108, (8, 0), "deviceQuery in github.com/bottlerocket-os/bottlerocket/pull/3873"),
        Device("a30", 56, (8, 0), "OpenCL query in github.com/ProjectPhysX/FluidX3D/issues/8"),
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
