"""Hypothesis profiles and the device gate. TILESCHED_PROFILE chooses the profile: dev (default), ci, deep."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_SHARED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=30, **_SHARED)
settings.register_profile("ci", max_examples=200, derandomize=True, **_SHARED)
settings.register_profile("deep", max_examples=5000, **_SHARED)
settings.load_profile(os.environ.get("TILESCHED_PROFILE", "dev"))


def _has_gpu() -> bool:
    from tilesched.kernels.launch import gpu_available

    return gpu_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip `gpu` tests where there is no device."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU, or no CuPy"))
