"""What the registry knows of a scheduler: parameters, defaults, source, and how to build a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import InputError
from ..problem import Problem, require_int32
from ..raster import RasterOrder
from ..schedule import Schedule

DEFAULT_PANEL_WIDTH = 8
"""That of TileLang's SM100 example, for every scheduler that has panels and for a user's own."""

__all__ = ["DEFAULT_PANEL_WIDTH", "Options", "Param", "RemarkKind", "SchedulerSpec"]


class RemarkKind(StrEnum):
    """Findings that follow from the parameters alone."""

    UNDEFINED = "undefined"  # the original divides by zero
    LAUNCH = "launch"  # CUDA refuses the grid
    ASSERTION = "assertion"  # the original kernel asserts something that this problem does not meet
    DYNAMIC = "dynamic"  # which worker computes which tile is decided at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may choose for a scheduler; None takes the scheduler's default.

    panel_width: tiles (clusters, when clusters are scheduled) across a panel.
    num_workers: the stride of the kernel's loop, in workers. launched: workers in the grid.
    """

    panel_width: int | None = None
    raster: RasterOrder | None = None
    num_workers: int | None = None
    launched: int | None = None

    def __post_init__(self) -> None:
        for name in ("panel_width", "num_workers", "launched"):
            value = getattr(self, name)
            if value is not None:
                require_int32(name, value)


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its field in `Options` or `Problem`, its default in words, and its meaning."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSpec:
    """A row of the registry. `build` raises InputError or NoScheduleError."""

    name: str
    summary: str
    source: str
    """Project, revision and file that the mapping is taken from."""
    params: Sequence[Param]
    cluster: tuple[int, int] = (1, 1)
    """Cluster that the scheduler takes when the user names none."""
    build: Callable[[Problem, Options], Schedule]
    aliases: Sequence[str] = ()
    """Other names of the scheduler: those of golden vectors."""
    param_aliases: Mapping[str, str] = field(default_factory=dict)
    """Parameter names of golden vectors, to tiles_m, tiles_n, cluster_m, sm_count or fields of `Options`."""
    golden_per_cta: bool = False
    """Golden vectors list the CTA tiles of every CTA, not the cluster tiles of every worker."""

    def require_cluster(self, problem: Problem, shape: str, allowed: bool) -> None:
        """InputError, with the `shape` that this scheduler takes, unless the problem's cluster is `allowed`."""
        if not allowed:
            raise InputError(f"cluster={problem.cluster_m}x{problem.cluster_n}: {self.name} schedules {shape}")

    def refuse(self, options: Options, *names: str) -> None:
        """InputError if the user chose an option that this scheduler does not have."""
        for name in names:
            if getattr(options, name) is not None:
                raise InputError(
                    f"{name}={getattr(options, name)} is not a parameter of {self.name}; "
                    f"it has {', '.join(param.name for param in self.params)}"
                )
