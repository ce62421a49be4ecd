"""Missing fences, proxies and scopes: lints, with a policy for each front end (semantics of docs/protocol.md, lints).

An order between two accesses that the checker found may still need a fence to carry the data: because they go through
different proxies, because tcgen05 work is ordered between threads only by its own fences, or because a release has CTA
scope. A kernel without them often works, and whole front ends leave some of them out; so they are never errors.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from ..errors import InputError
from ..findings import Finding, Severity
from .clocks import Clock, reached
from .mbarrier import Fault
from .ops import (
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Fence,
    FenceKind,
    Init,
    Launch,
    Mode,
    Operation,
    Scope,
    Space,
    Wait,
)
from .ordered import Run
from .program import Protocol
from .slot_run import Past

__all__ = ["POLICIES", "LintKind", "Policy", "find_lints", "policy"]


class LintKind(StrEnum):
    """What is missing."""

    PROXY = "missing-proxy-fence"  # rule 28: generic write, then a read by TMA, wgmma or tcgen05
    INIT = "missing-init-fence"  # rule 4: init, then a use by an engine or another CTA
    TCGEN05_BEFORE = "missing-tcgen05-fence-before"  # rule 42: between tcgen05.ld/st and the signal
    TCGEN05_AFTER = "missing-tcgen05-fence-after"  # rule 42: between the wait and tcgen05 work
    WGMMA = "missing-wgmma-fence"  # rule 28: registers touched by their threads, then by wgmma
    TENSORMAP = "missing-tensormap-fence"  # rule 30: a descriptor is changed, then used
    SCOPE = "narrow-scope"  # rule 26: ordinary data cross the CTA border under .cta
    REMOTE_SCOPE = "remote-cta-scope"  # rules 31, 32: an arrival with .cta scope on another CTA's barrier


@dataclass(frozen=True, slots=True)
class Policy:
    """Which lints apply to what a front end emits."""

    name: str
    kinds: frozenset[LintKind]
    why: str


_ALL = frozenset(LintKind)
_TCGEN05 = frozenset({LintKind.TCGEN05_BEFORE, LintKind.TCGEN05_AFTER})
_UNQUALIFIED = _ALL - {LintKind.REMOTE_SCOPE}
POLICIES = {
    one.name: one
    for one in (
        Policy("ptx", _ALL, "all that the PTX text asks for"),
        Policy("tilelang", _UNQUALIFIED, "emits both tcgen05 fences; remote arrivals are unqualified"),
        Policy("cutlass", _UNQUALIFIED, "ClusterBarrier uses the unqualified forms, remote ones included"),
        Policy("cute", _UNQUALIFIED - _TCGEN05, "CuTe DSL emits no tcgen05.fence"),
        Policy("triton", _UNQUALIFIED - _TCGEN05, "emits no tcgen05.fence"),
        Policy("gluon", _UNQUALIFIED - _TCGEN05, "emits no tcgen05.fence"),
        Policy("none", frozenset(), "no lints"),
    )
}


def policy(name: str) -> Policy:
    """Raises InputError for an unknown name."""
    if name not in POLICIES:
        raise InputError(f"policy={name!r} is unknown; known: {', '.join(POLICIES)}")
    return POLICIES[name]


def find_lints(protocol: Protocol, rules: Policy) -> list[Finding]:
    """The first lint of each kind and barrier or slot, in the orders that one run shows.

    Where the protocol has errors, lints are those of the run up to where it stops.
    """
    run = _LintRun(protocol, rules)
    if not rules.kinds:
        return []
    with suppress(Fault):  # an error, which the checker reports
        run.go()
    return list(run.lints.values())


class _LintRun(Run):
    """A run that also keeps fences, and the scopes of arrivals and waits."""

    def __init__(self, protocol: Protocol, rules: Policy) -> None:
        super().__init__(protocol)
        self.rules = rules
        self.lints: dict[tuple[LintKind, str], Finding] = {}
        self.fences: dict[tuple[int, FenceKind], list[int]] = {}  # operations, rising
        self.after: dict[tuple[int, FenceKind], Clock] = {}  # what was sure at the thread's last fence of a kind
        self.released: dict[int, list[int]] = {}  # a thread's arrivals with cluster scope, rising
        self.acquired: dict[int, Clock] = {}  # what was sure at its last wait with cluster scope
        self.made_by: dict[Barrier, tuple[int, int]] = {}  # thread and operation of the init
        ctas: dict[Barrier, set[int]] = {}
        for who in protocol.threads:
            for operation in who.operations:
                if isinstance(operation, AwaitOwn) and operation.barrier.kind is BarrierKind.HARDWARE:
                    ctas.setdefault(operation.barrier, set()).add(who.cta)
        self.cluster_barriers = {barrier for barrier, waiting in ctas.items() if len(waiting) > 1}

    def lint(self, kind: LintKind, about: str, message: str) -> None:
        if kind in self.rules.kinds:
            facts = {"about": about, "policy": self.rules.name}
            finding = Finding(kind=kind, message=message, severity=Severity.LINT, facts=facts)
            self.lints.setdefault((kind, about), finding)

    # -- what is kept ---------------------------------------------------------------------------------------------

    def _step(self, thread: int, operation: Operation) -> bool:
        at, clock = self.at[thread] + 1, self.clocks[thread]
        match operation:
            case Fence(kind):
                self.fences.setdefault((thread, kind), []).append(at)
                self.after[thread, kind] = list(clock)
            case Init(barrier):
                self.made_by.setdefault(barrier, (thread, at))
            case Arrive(barrier):
                if self._is_wide(barrier, operation.scope):
                    self.released.setdefault(thread, []).append(at)
                self._check_arrival(thread, operation)
            case Launch(agent):
                for signal in agent.signals:
                    self._check_init(signal.barrier, f"{self.threads[thread]}'s {agent.name}", clock)
        passed = super()._step(thread, operation)
        if passed and isinstance(operation, (Wait, AwaitOwn)) and self._is_wide(operation.barrier, operation.scope):
            self.acquired[thread] = list(clock)
        return passed

    def _is_wide(self, barrier: Barrier, scope: Scope) -> bool:
        return scope is Scope.CLUSTER or barrier in self.cluster_barriers

    def _check_arrival(self, thread: int, arrival: Arrive) -> None:
        barrier, who = arrival.barrier, self.threads[thread]
        if barrier.kind is BarrierKind.HARDWARE or barrier.cta == who.cta:
            return
        self._check_init(barrier, str(who), self.clocks[thread])
        if arrival.scope is Scope.CTA:
            self.lint(
                LintKind.REMOTE_SCOPE,
                barrier.name,
                f"{who} arrives on {barrier.name} of CTA {barrier.cta} with .release.cta: it publishes nothing to that "
                "CTA's threads (docs/protocol.md rules 31, 32)",
            )

    def _check_init(self, barrier: Barrier, who: str, clock: Clock) -> None:
        made = self.made_by.get(barrier)
        if made is not None and not self._fenced(made[0], made[1], FenceKind.MBARRIER_INIT, clock):
            self.lint(
                LintKind.INIT,
                barrier.name,
                f"{who} uses {barrier.name}, whose init no fence.mbarrier_init makes visible to it "
                "(docs/protocol.md rule 4)",
            )

    # -- pairs of accesses ----------------------------------------------------------------------------------------

    def _access(self, pasts: list[Past], clock: Clock) -> None:
        for past in pasts:
            for other in self.slots[past.access.slot].conflicts(past.access.mode):
                if reached(clock, other.stamps):  # else it is a race, an error
                    self._check_pair(other, past, clock)
        super()._access(pasts, clock)

    def _check_pair(self, other: Past, past: Past, clock: Clock) -> None:
        space = past.access.slot.space
        name, pair = past.access.slot.name, f"{other.who} {other.access.mode.value} {past.access.slot.name}"
        pair = f"{pair}, then {past.who} {past.access.mode.value} it"
        first, second = other.begun[0], past.begun[0]
        crosses_proxies = past.by_engine and not other.by_engine
        if space is Space.SHARED and crosses_proxies and past.access.mode is not Mode.WRITE:
            if not self._fenced(*other.begun, FenceKind.PROXY_ASYNC, clock):
                self._lint_pair(
                    LintKind.PROXY, name, pair, f"no fence.proxy.async of {self.threads[first]} between", 28
                )
        elif space is Space.REGISTERS and crosses_proxies:
            if not self._fenced(*other.begun, FenceKind.WGMMA, clock):
                self._lint_pair(LintKind.WGMMA, name, pair, f"no wgmma.fence of {self.threads[first]} between", 28)
        elif space is Space.DESCRIPTOR and crosses_proxies:
            released = self._fenced(*other.begun, FenceKind.TENSORMAP_RELEASE, clock)
            if not released or not self._since(second, FenceKind.TENSORMAP_ACQUIRE, other):
                self._lint_pair(LintKind.TENSORMAP, name, pair, "no pair of fence.proxy.tensormap between", 30)
        elif space is Space.TMEM and first != second:
            self._check_tcgen05(other, past, clock, pair)
        published = not other.by_engine and other.access.mode is not Mode.READ
        if published and self.threads[first].cta != self.threads[second].cta:
            self._check_scope(other, past, clock, pair)

    def _check_tcgen05(self, other: Past, past: Past, clock: Clock, pair: str) -> None:
        name, first, second = past.access.slot.name, other.begun[0], past.begun[0]
        in_issue_order = self._queued(other)  # a commit tells of it, and implies the fence (rule 40)
        if not in_issue_order and not self._fenced(*other.begun, FenceKind.TCGEN05_BEFORE, clock):
            text = f"no tcgen05.fence::before_thread_sync of {self.threads[first]} after the first"
            self._lint_pair(LintKind.TCGEN05_BEFORE, name, pair, text, 42)
        if not self._since(second, FenceKind.TCGEN05_AFTER, other):
            text = f"no tcgen05.fence::after_thread_sync of {self.threads[second]} before the second"
            self._lint_pair(LintKind.TCGEN05_AFTER, name, pair, text, 42)

    def _check_scope(self, other: Past, past: Past, clock: Clock, pair: str) -> None:
        first, second = other.begun[0], past.begun[0]
        known = self.acquired.get(second)
        released = _any_between(self.released.get(first, []), other.begun[1], clock[first])
        if not released or known is None or not reached(known, other.stamps):
            what = "release" if not released else "acquire"
            text = f"in another CTA, with no {what} of cluster scope between"
            self._lint_pair(LintKind.SCOPE, past.access.slot.name, pair, text, 26)

    def _lint_pair(self, kind: LintKind, name: str, pair: str, text: str, rule: int) -> None:
        self.lint(kind, name, f"{pair}: {text} (docs/protocol.md rule {rule})")

    def _queued(self, past: Past) -> bool:
        thread, at = past.begun
        operation = self.threads[thread].operations[at - 1]
        return isinstance(operation, Launch) and operation.agent.queue is not None

    def _fenced(self, thread: int, at: int, kind: FenceKind, clock: Clock) -> bool:
        """Whether a fence of the thread after its operation `at` is sure to be past."""
        return _any_between(self.fences.get((thread, kind), []), at, clock[thread])

    def _since(self, thread: int, kind: FenceKind, other: Past) -> bool:
        """Whether the other access was sure to be past at the thread's last fence of the kind."""
        known = self.after.get((thread, kind))
        return known is not None and reached(known, other.stamps)


def _any_between(rising: list[int], above: int, up_to: int) -> bool:
    """Whether one of the values is in (above, up_to]."""
    place = bisect_right(rising, above)
    return place < len(rising) and rising[place] <= up_to
