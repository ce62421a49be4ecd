"""Run compiled kernels on an NVIDIA GPU. The only file that imports CuPy, and only when a GPU is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError, KernelError
from tilesched.simulator.findings import Finding

__all__ = ["POISON_BYTE", "Gpu", "KernelKind", "gpu_available"]

POISON_BYTE = 0xA5
"""What outputs hold before a launch: memory that a kernel did not write cannot pass for a result."""


class KernelKind(StrEnum):
    """Kinds of findings about a kernel that yields no recording."""

    FAILED = "kernel-failed"  # CUDA reports an error of the launch
    UNOPENED = "unopened-slot"  # a CTA or role did not open its part of the trace: it did not run


def gpu_available() -> bool:
    """Whether CuPy is installed and sees a device."""
    try:
        Gpu()
    except InputError:
        return False
    return True


class Gpu:
    """The current CUDA device. Raises InputError, of one line, when it or CuPy is not there."""

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError:
            raise InputError(
                "CuPy is not installed; `pip install 'tilesched-sim[cuda13]'` (or [cuda12]) brings it"
            ) from None
        self._cupy: Any = cupy
        try:
            device = cupy.cuda.Device()
            properties = cupy.cuda.runtime.getDeviceProperties(device.id)
            version = cupy.cuda.runtime.driverGetVersion()
        except Exception as error:
            raise InputError(f"no usable NVIDIA GPU: {_first_line(error)}") from None
        self.name: str = properties["name"].decode()
        self.sm_count: int = int(properties["multiProcessorCount"])
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.driver = f"CUDA {version // 1000}.{version % 1000 // 10}"

    def describe(self) -> dict[str, str]:
        """The device as traces name it."""
        return {"name": self.name, "arch": self.arch, "driver": self.driver, "sm_count": str(self.sm_count)}

    def run(
        self,
        cubin: bytes,
        kernel: str,
        *,
        grid: int,
        block: int,
        scalars: Sequence[int],
        inputs: Sequence[npt.NDArray[Any]] = (),
        outputs: Sequence[npt.NDArray[Any]],
        trailing: Sequence[int] = (),
    ) -> None:
        """Launch a kernel of 32-bit scalars, then pointers to inputs and outputs, then scalars, and wait for it.

        `outputs` are overwritten in place; on the device they are poisoned before the launch. Raises InputError
        when memory does not suffice, KernelError when the launch fails.
        """
        cupy = self._cupy
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "kernel.cubin"
                path.write_bytes(cubin)
                function = cupy.RawModule(path=str(path)).get_function(kernel)
            given = [cupy.asarray(np.frombuffer(array.tobytes(), np.uint8)) for array in inputs]
            buffers = [cupy.full(max(array.nbytes, 1), POISON_BYTE, cupy.uint8) for array in outputs]
            arguments = (*map(np.int32, scalars), *given, *buffers, *map(np.int32, trailing))
            function((grid,), (block,), arguments)
            cupy.cuda.runtime.deviceSynchronize()
            for array, buffer in zip(outputs, buffers, strict=True):
                array[...] = buffer.get()[: array.nbytes].view(array.dtype).reshape(array.shape)
        except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            message = f"{kernel} failed on {self.name}: {_first_line(error)}"
            raise KernelError(Finding(kind=KernelKind.FAILED, message=message, facts={"kernel": kernel})) from None
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise InputError(f"{kernel} needs more memory than {self.name} has: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
