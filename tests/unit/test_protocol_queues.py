"""Works of one queue end in order, so waiting for one is waiting for those before it."""

from __future__ import annotations

import pytest

from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ops import Access, Agent, Join, Launch, Mode, Slot, Touch
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol, thread

X, Y = Slot("x"), Slot("y")


@pytest.mark.parametrize(("queue", "found"), [("wgmma", set()), (None, {ProtocolKind.RACE, ProtocolKind.IN_FLIGHT})])
def test_joining_a_later_work_of_a_queue_covers_the_earlier_ones(queue: str | None, found: set[ProtocolKind]) -> None:
    role = [
        Launch(Agent("first", (Access(X, Mode.WRITE),), queue=queue, group="0")),
        Launch(Agent("second", (Access(Y, Mode.WRITE),), queue=queue, group="1")),
        Join(("1",)),
        Touch(Access(X, Mode.READ)),
        Touch(Access(Y, Mode.READ)),
    ]
    protocol = Protocol("queue", (thread("role", role),))
    assert {finding.kind for finding in check_ordered(protocol)} == found
    assert bool(explore(protocol).found) == bool(found)


def test_joining_an_earlier_work_says_nothing_of_a_later_one() -> None:
    role = [
        Launch(Agent("first", (Access(Y, Mode.WRITE),), queue="wgmma", group="0")),
        Launch(Agent("second", (Access(X, Mode.WRITE),), queue="wgmma", group="1")),
        Join(("0",)),
        Touch(Access(Y, Mode.READ)),
        Touch(Access(X, Mode.READ)),
    ]
    protocol = Protocol("queue", (thread("role", role),))
    assert {finding.kind for finding in check_ordered(protocol)} == {ProtocolKind.RACE, ProtocolKind.IN_FLIGHT}
    assert ProtocolKind.RACE in explore(protocol).found
