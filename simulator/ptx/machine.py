"""The machine: resident CTAs, turns of warps, engines between them, and what it means when nothing can go on.

A run repeats exactly for the same kernel, launch and ordering. Warps take turns; memory is coherent and in program
order (races are seen only where an engine has its hands on the bytes).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .barriers import settle_named
from .code import Code
from .engines import Engines, Ordering, Policy
from .kinds import Fault, MachineKind
from .launch import Launch
from .memory import RANK_SHIFT, SHARED_FIRST, Heap, Region
from .slots import BLOCK, DTYPES, LANES, SPLIT, Array, Regs
from .warp import Cluster, Cta, Fragment, LiveBarrier, Reason, Waiting, Warp

__all__ = ["Limits", "Machine", "Stop"]

_RANKS = {Policy.EARLY: 1, Policy.EARLY_REVERSED: -1}
_QUANTUM = 400  # instructions of a warp's turn
_DECLINE = 0.25  # of a cancel request under the random ordering
_TRY_WAIT_NS = 10_000_000  # what passes when suspended waits give up
_CLOCK_STEP_NS = 1_000_000  # at most, between two looks at a clock while nothing else happens


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run is given up: executed warp-instructions, seconds of wall clock, bytes of arrays and CTAs."""

    steps: int = 200_000_000
    seconds: float = 600.0
    memory: int = 4 * 2**30


class Stop(Exception):
    """The run ends here with a finding; `warp` and `fragment` say who did it, if anybody."""

    def __init__(self, fault: Fault, warp: Warp | None = None, fragment: Fragment | None = None) -> None:
        super().__init__(str(fault))
        self.kind = fault.kind
        self.facts = fault.facts
        self.warp = warp
        self.fragment = fragment


class Machine:
    """One run of a compiled kernel. `shared_names`: variables of shared memory by offset, for reports."""

    def __init__(
        self,
        code: Code,
        launch: Launch,
        heap: Heap,
        params: Region,
        *,
        registers: int,
        shared_size: int,
        shared_names: list[tuple[int, str]],
        sm: int,
        ordering: Ordering,
        limits: Limits,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.heap = heap
        self.params = params
        self.registers = registers
        self.sm = sm
        self.waits_for_loads = code.waits_for_loads
        self.hasty = ordering.policy is Policy.LATE
        self._rank = _RANKS.get(ordering.policy)
        self.column_waiters: list[tuple[Warp, Fragment]] = []
        self.engines = Engines(ordering)
        self.effects = 0
        self.steps = 0
        self.notes: list[tuple[MachineKind, str, dict[str, object]]] = []
        self.resident: list[Cta] = []
        self._code = code
        self._launch = launch
        self._shared_size = shared_size
        self._shared_names = shared_names
        self._limits = limits
        self._progress = progress
        self._random = self.engines.random if ordering.policy is Policy.RANDOM else None
        self._ready: deque[Warp] = deque()
        self._clusters = self._cluster_ids()
        self._waiting_clusters = prod(launch.grid) // prod(launch.cluster)
        self._slots = list(range(launch.sm_count * launch.ctas_per_sm - 1, -1, -1))
        self._slot_of: dict[int, int] = {}
        self._first = code.slots.first_values()
        self._time_ns = 0
        self._clock_step = 1
        self._clock_effects = -1
        self._stall_saved: tuple[int, bytes] = (-1, b"")
        self._stalls = 0

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return prod(self._launch.grid)

    def run(self) -> None:
        """Run to the end. Raises Stop for whatever ends it before."""
        deadline = time.monotonic() + self._limits.seconds
        self._admit()
        turns = 0
        while self.resident:
            turns += 1
            if turns % 64 == 0 and time.monotonic() > deadline:
                raise _limit(f"{self._limits.seconds:g} seconds")
            if self.steps > self._limits.steps:
                raise _limit(f"{self._limits.steps} warp-instructions")
            if self._ready and not self._all_loop():
                self._turn(self._next_ready())
                self.engines.turn()
            elif not self._engine_step() and not self._give_up_waits():
                self._hang()
        while self._engine_step():  # copies that nobody waited for
            pass

    # -- what steps ask of the machine ------------------------------------------------------------------------------

    def wake(self, waiters: list[tuple[Warp, Fragment]]) -> None:
        """Let those that wait look again."""
        for warp, fragment in waiters:
            fragment.blocked = None
            self._enqueue(warp)
        waiters.clear()

    def waits_for_lanes(self, warp: Warp, missing: Array) -> Waiting:
        """What a fragment says that waits for other lanes of its warp."""
        lanes = np.flatnonzero(missing).tolist()
        return Waiting(Reason.CONVERGE, f"waits for lanes {lanes[0]} to {lanes[-1]} of its warp", {"lanes": lanes})

    def lanes_ended(self, warp: Warp) -> None:
        """Lanes of a warp have ended: barriers may be complete without them, and the CTA may be at its end."""
        self.effects += 1
        if not warp.live_count:
            warp.cta.live_warps -= 1
        for barrier in warp.cta.named.values():
            partial = barrier.partial.get(warp.index)
            if partial is not None and not (warp.live & ~partial).any():
                del barrier.partial[warp.index]
                barrier.arrived += LANES
            settle_named(warp.cta, barrier)
        self.settle_cluster(warp.cta.cluster)
        if not warp.cta.live_warps:
            self._end_cta(warp.cta)

    def settle_cluster(self, cluster: Cluster) -> None:
        """End the phase of a cluster's barrier if all threads that are left have arrived."""
        warps = [warp for cta in cluster.ctas for warp in cta.warps if warp.live_count]
        if warps and all((warp.cluster_phase[warp.live] >= cluster.phase).all() for warp in warps):
            cluster.phase += 1
            self.wake(cluster.waiters)

    def read_clock(self) -> int:
        """Nanoseconds. Who only looks at a clock sees time pass faster, so that bounded waits come to their end."""
        self._clock_step = min(2 * self._clock_step, _CLOCK_STEP_NS) if self._clock_effects == self.effects else 1
        self._clock_effects = self.effects
        self._time_ns += self._clock_step
        return self._time_ns + self.steps

    def sleep(self, nanoseconds: int) -> None:
        """nanosleep: time passes, for everybody."""
        self._time_ns += nanoseconds

    def cancel_cluster(self) -> tuple[int, int, int] | None:
        """Give the next cluster that has not started away: the index of its first CTA, None if there is none."""
        if not self._waiting_clusters or (self._random is not None and self._random.random() < _DECLINE):
            return None
        self._waiting_clusters -= 1
        x, y, z = (w * c for w, c in zip(next(self._clusters), self._launch.cluster, strict=True))
        return x, y, z

    def columns_on_sm(self, cta: Cta) -> int:
        """Columns of tensor memory that the CTAs of a CTA's SM hold."""
        sm = self._sm_of(cta)
        here = [one.tmem for one in self.resident if one.tmem is not None and self._sm_of(one) == sm]
        return sum(int(np.count_nonzero(one.allocated)) for one in here)

    def _sm_of(self, cta: Cta) -> int:
        return self._slot_of[cta.index] // self._launch.ctas_per_sm

    def shared_name(self, offset: int) -> str:
        """What lies at an offset of shared memory: a variable and bytes."""
        best = max((one for one in self._shared_names if one[0] <= offset), default=None)
        if best is None:
            return f"shared+{offset:#x}"
        return best[1] if best[0] == offset else f"{best[1]}+{offset - best[0]}"

    # -- turns ------------------------------------------------------------------------------------------------------

    def _enqueue(self, warp: Warp) -> None:
        if not warp.queued:
            warp.queued = True
            self._ready.append(warp)

    def _next_ready(self) -> Warp:
        if self._random is not None:
            self._ready.rotate(self._random.randrange(len(self._ready)))
        elif self._rank is not None:  # those that spin come last
            rank = self._rank
            best = min(range(len(self._ready)), key=lambda n: (self._ready[n].idle, rank * self._ready[n].index))
            self._ready.rotate(-best)
        warp = self._ready.popleft()
        warp.queued = False
        return warp

    def _turn(self, warp: Warp) -> None:
        before, budget = self.effects, _QUANTUM
        while budget > 0:
            fragment = warp.pick()
            if fragment is None:
                return
            budget -= self._advance(warp, fragment, budget)
        if warp.fragments:
            self._enqueue(warp)
        self._look_for_loop(warp, before)

    def _advance(self, warp: Warp, fragment: Fragment, budget: int) -> int:
        """Run a fragment until it splits, waits, ends, may meet another, or has used its budget."""
        blocks, regs, used = self._code.blocks, warp.regs, 0
        whole = fragment.count == LANES
        mask = fragment.mask
        alone = len(warp.fragments) == 1
        try:
            while True:
                block = blocks[fragment.pc]
                if whole:
                    for step in block.full:
                        step(regs)
                else:
                    for masked in block.masked:
                        masked(regs, mask)
                used += len(block.full) + 1
                fragment.pc = block.end
                if block.ending is not None:
                    pc = block.ending(warp, fragment)
                    if pc < 0:
                        assert pc in (BLOCK, SPLIT)
                        break
                    fragment.pc = pc
                if used >= budget or not alone:
                    break
        except Fault as fault:
            raise Stop(fault, warp, fragment) from None
        finally:
            self.steps += used
        return used

    def _look_for_loop(self, warp: Warp, before: int) -> None:
        """Note whether a warp, while nothing happens anywhere, comes back to a state that it was in (Brent)."""
        if self.effects != before or self.effects != warp.effects:
            warp.effects, warp.idle, warp.saved, warp.looping = self.effects, 0, b"", False
            return
        if warp.looping:
            return
        warp.idle += 1
        now = warp.signature()
        if now == warp.saved:
            warp.looping = True
        elif warp.idle & (warp.idle - 1) == 0:
            warp.saved = now

    def _all_loop(self) -> bool:
        first = self._ready[0]
        if not first.looping or first.effects != self.effects:
            return False
        return all(warp.looping and warp.effects == self.effects for warp in self._ready)

    # -- when nothing goes on ---------------------------------------------------------------------------------------

    def _engine_step(self) -> bool:
        try:
            return self.engines.stalled()
        except Fault as fault:
            raise Stop(fault) from None

    def _suspended(self) -> Iterator[tuple[Warp, Fragment]]:
        for cta in self.resident:
            for warp in cta.warps:
                for fragment in warp.fragments:
                    if fragment.blocked is not None and fragment.blocked.suspended:
                        yield warp, fragment

    def _give_up_waits(self) -> bool:
        """Let every try_wait answer false, as its time limit allows; not again from a state that was seen."""
        suspended = list(self._suspended())
        if not suspended:
            return False
        if self._stall_saved[0] != self.effects:
            self._stall_saved, self._stalls = (self.effects, b""), 0
        self._stalls += 1
        state = b"".join(warp.signature() for warp in dict.fromkeys(warp for warp, _ in suspended))
        if state == self._stall_saved[1]:
            return False
        if self._stalls & (self._stalls - 1) == 0:
            self._stall_saved = self.effects, state
        self._time_ns += _TRY_WAIT_NS
        for warp, fragment in suspended:
            fragment.blocked = None
            fragment.expired = True
            self._enqueue(warp)
        return True

    def _hang(self) -> None:
        spinning = any(fragment.blocked is None for cta in self.resident for w in cta.warps for fragment in w.fragments)
        left = self._waiting_clusters
        if left and spinning:
            kind, why = MachineKind.NOT_RESIDENT, f"threads spin while {left} clusters wait for room"
        elif spinning:
            kind, why = MachineKind.LIVELOCK, "threads spin and nothing can change any more"
        else:
            kind, why = MachineKind.DEADLOCK, "every thread waits for what cannot come any more"
        raise Stop(Fault(kind, why))

    # -- CTAs -------------------------------------------------------------------------------------------------------

    def _cluster_ids(self) -> Iterator[tuple[int, int, int]]:
        x, y, z = (ctas // width for ctas, width in zip(self._launch.grid, self._launch.cluster, strict=True))
        return ((i, j, k) for k in range(z) for j in range(y) for i in range(x))

    def _cluster_number(self, where: tuple[int, int, int]) -> int:
        width, height, _ = (ctas // per for ctas, per in zip(self._launch.grid, self._launch.cluster, strict=True))
        return where[0] + width * (where[1] + height * where[2])

    def _admit(self) -> None:
        """Start clusters, in order, while there is room for a whole one."""
        size = prod(self._launch.cluster)
        while self._waiting_clusters and len(self._slots) >= size:
            where = next(self._clusters)
            cluster = Cluster(self._cluster_number(where))
            self._waiting_clusters -= 1
            for rank in range(size):
                cluster.ctas.append(self._start_cta(cluster, where, rank))
            for cta in cluster.ctas:
                self.resident.append(cta)
                for warp in cta.warps:
                    self._enqueue(warp)
            self.effects += 1

    def _start_cta(self, cluster: Cluster, where: tuple[int, int, int], rank: int) -> Cta:
        width, height, _ = self._launch.cluster
        inside = rank % width, rank // width % height, rank // (width * height)
        x, y, z = (w * c + i for w, c, i in zip(where, self._launch.cluster, inside, strict=True))
        index = cluster.index * prod(self._launch.cluster) + rank
        shared = Region(f"the shared memory of CTA {index}", rank << RANK_SHIFT, SHARED_FIRST + self._shared_size)
        cta = Cta(self, index, (x, y, z), rank, cluster, shared)
        self._slot_of[index] = self._slots.pop()
        threads = prod(self._launch.block)
        for number in range(-(-threads // LANES)):
            lanes = np.arange(LANES) + number * LANES
            regs = list(self._first)
            self._fill_specials(regs, cta, where, inside, lanes)
            cta.warps.append(Warp(self, cta, number, regs, lanes < threads))
        cta.live_warps = len(cta.warps)
        return cta

    def _fill_specials(
        self, regs: Regs, cta: Cta, where: tuple[int, int, int], inside: tuple[int, int, int], threads: Array
    ) -> None:
        launch = self._launch
        bx, by, _ = launch.block
        axes: dict[str, Any] = {
            "tid": (threads % bx, threads // bx % by, threads // (bx * by)),
            "ntid": launch.block,
            "ctaid": cta.ctaid,
            "nctaid": launch.grid,
            "clusterid": where,
            "nclusterid": tuple(n // c for n, c in zip(launch.grid, launch.cluster, strict=True)),
            "cluster_ctaid": inside,
            "cluster_nctaid": launch.cluster,
        }
        lane = np.arange(LANES, dtype=np.uint64)
        bit = np.uint64(1) << lane
        values: dict[str, Any] = {
            f"{name}.{axis}": value for name, triple in axes.items() for axis, value in zip("xyz", triple, strict=True)
        }
        values |= {
            "laneid": lane,
            "warpid": int(threads[0]) // LANES,
            "nwarpid": -(-prod(launch.block) // LANES),
            "smid": self._sm_of(cta),
            "nsmid": launch.sm_count,
            "gridid": 1,
            "cluster_ctarank": cta.rank,
            "cluster_nctarank": prod(launch.cluster),
            "is_explicit_cluster": int(prod(launch.cluster) > 1),
            "dynamic_smem_size": launch.dynamic_smem,
            "total_smem_size": SHARED_FIRST + self._shared_size,
            "lanemask_eq": bit,
            "lanemask_lt": bit - np.uint64(1),
            "lanemask_le": 2 * bit - np.uint64(1),
            "lanemask_ge": np.uint64(2**32) - bit,
            "lanemask_gt": np.uint64(2**32) - 2 * bit,
        }
        for (name, bits), slot in self._code.slots.specials.items():
            value = values.get(name, 0)  # clocks are read by their own step
            regs[slot] = np.broadcast_to(np.asarray(value), LANES).astype(DTYPES[bits])
        for (offset, bits), slot in self._code.slots.shared.items():
            regs[slot] = np.full(LANES, (cta.rank << RANK_SHIFT) + offset, DTYPES[bits])

    def _end_cta(self, cta: Cta) -> None:
        agent = self.engines.using(cta.shared)
        if agent is not None:
            text = f"CTA {cta.index} ends while a {agent.name} still uses its shared memory"
            raise Stop(Fault(MachineKind.EXIT_IN_FLIGHT, text, cta=cta.index, instruction=agent.instruction))
        if cta.tmem is not None and cta.tmem.allocation.held:
            text = f"CTA {cta.index} ends and has not deallocated its tensor memory"
            raise Stop(Fault(MachineKind.TENSOR_MEMORY, text, cta=cta.index))
        for barrier in cta.mbarriers.values():
            self._check_leftover(barrier)
        cta.shared.alive = False
        cta.shared.size = 0  # so that every access goes the way that looks at `alive`
        self._slots.append(self._slot_of.pop(cta.index))
        self.resident.remove(cta)
        if self._progress is not None:
            self._progress(
                self.ctas - len(self.resident) - self._waiting_clusters * prod(self._launch.cluster), self.ctas
            )
        self._admit()

    def _check_leftover(self, barrier: LiveBarrier) -> None:
        value = barrier.value
        if value.tx or value.pending != value.expected:
            text = (
                f"mbarrier {barrier.name} of {barrier.cta} is left in phase {value.phase} with {value.pending} of "
                f"{value.expected} arrivals and {value.tx} bytes pending"
            )
            facts: dict[str, object] = {"barrier": barrier.address, "cta": barrier.cta.index, "phase": value.phase}
            self.notes.append((MachineKind.LEFTOVER, text, {**facts, "pending": value.pending, "tx": value.tx}))


def _limit(what: str) -> Stop:
    return Stop(Fault(MachineKind.LIMIT, f"not over after {what}", limit=what))
