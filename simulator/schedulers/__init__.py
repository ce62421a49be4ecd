"""The registry of schedulers. Adding one: a SchedulerSpec in a module here, and its row in SCHEDULERS."""

from __future__ import annotations

from ..errors import InputError
from . import cutedsl, cutlass, deepgemm, quack, tilelang, tilelang_loops, triton
from .spec import DEFAULT_PANEL_WIDTH, Options, Param, SchedulerSpec

__all__ = ["DEFAULT", "DEFAULT_PANEL_WIDTH", "SCHEDULERS", "Options", "Param", "SchedulerSpec", "get"]

SCHEDULERS: dict[str, SchedulerSpec] = {
    spec.name: spec
    for spec in (
        tilelang.PERSISTENT,
        tilelang.MANUAL_1CTA,
        tilelang.MANUAL_2CTA,
        triton.GROUPED,
        triton.GROUPED_ROTATED,
        tilelang_loops.T_PERSISTENT,
        tilelang_loops.T_PERSISTENT_BEFORE,
        tilelang_loops.CLC_2CTA,
        tilelang_loops.USE_SWIZZLE,
        cutlass.SM90_STATIC,
        cutlass.SM100_CLC,
        cutlass.IDENTITY_SWIZZLE,
        cutedsl.STATIC_PERSISTENT,
        cutedsl.CLC_DYNAMIC,
        deepgemm.NORMAL,
        quack.DENSE_STATIC,
    )
}
DEFAULT = tilelang.PERSISTENT


_BY_NAME = {name: spec for spec in SCHEDULERS.values() for name in (spec.name, *spec.aliases)}


def get(name: str) -> SchedulerSpec:
    """The scheduler of that name or alias; InputError, with the nearest name, if there is none."""
    if name not in _BY_NAME:
        from difflib import get_close_matches

        near = get_close_matches(name, _BY_NAME, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(SCHEDULERS)}"
        raise InputError(f"scheduler={name!r} is unknown; {hint}")
    return _BY_NAME[name]
