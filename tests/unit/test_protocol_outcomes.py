"""Control that depends on timing: every outcome is judged, and a limit is said."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.ops import Arrive, Barrier, Operation, Wait
from tilesched.simulator.protocol.outcomes import Outcomes, branches, check_outcomes
from tilesched.simulator.protocol.program import Protocol, Thread


def nothing() -> Protocol:
    return Protocol("nothing", (Thread("t", ()),))


@given(st.lists(st.integers(1, 4), max_size=4))
def test_every_outcome_comes_once(options: list[int]) -> None:
    def make(outcomes: Outcomes) -> Protocol:
        for number, count in enumerate(options):
            assert 0 <= outcomes.choose(f"q{number}", count) < count
        return nothing()

    seen = [tuple(answers.values()) for answers, _ in branches(make)]
    assert seen == list(product(*(range(count) for count in options)))


def test_questions_can_depend_on_answers() -> None:
    """Queries of the hardware scheduler: granted until declined, at most three."""

    def make(outcomes: Outcomes) -> Protocol:
        for number in range(3):
            if outcomes.choose(f"answer {number} declined"):
                break
        return nothing()

    assert [tuple(answers.values()) for answers, _ in branches(make)] == [(0, 0, 0), (0, 0, 1), (0, 1), (1,)]


def test_all_roles_get_the_same_answer() -> None:
    outcomes = Outcomes({"q": 1})
    assert [outcomes.choose("q"), outcomes.choose("q")] == [1, 1]
    with pytest.raises(InputError, match="asked with 2 and with 3 options"):
        outcomes.choose("q", 3)
    with pytest.raises(InputError, match=r"options=0 is outside \[1, 64\]"):
        outcomes.choose("other", 0)


def quack_206(outcomes: Outcomes, *, guarded: bool = False) -> Protocol:
    """Dao-AILab/quack#206: the MMA role reads the group boundaries before the kernel that writes them has ended, or
    after, and sees one tile, or two. The loads wait for that kernel. K = 3, two stages."""
    full, empty = [Barrier(f"full{s}", 1) for s in (0, 1)], [Barrier(f"empty{s}", 1) for s in (0, 1)]
    old = 0 if guarded else outcomes.choose("MMA reads the old boundaries")

    def ring(tiles: int, own: list[Barrier], other: list[Barrier], lag: int) -> tuple[Operation, ...]:
        counts = range(3 * tiles)
        waits = (Wait(own[c % 2], c // 2 - lag, (c // 2 - lag) & 1) for c in counts)
        return tuple(one for c, wait in zip(counts, waits, strict=True) for one in (wait, Arrive(other[c % 2])))

    loads, mma = ring(2, empty, full, 1), ring(2 - old, full, empty, 0)
    return Protocol("quack", (Thread("LOAD", loads), Thread("MMA", mma)))


def test_the_outcome_that_hangs_is_named() -> None:
    verdict = check_outcomes(quack_206)
    assert (verdict.outcomes, verdict.complete) == (2, True)
    deadlock = next(finding for finding in verdict.findings if finding.kind is Kind.DEADLOCK)
    assert deadlock.message.startswith("with MMA reads the old boundaries=1: 1 of 2 threads wait for ever: LOAD@CTA0")
    assert deadlock.facts["outcome"] == {"MMA reads the old boundaries": 1}
    assert check_outcomes(lambda outcomes: quack_206(outcomes, guarded=True)).findings == ()


def test_a_limit_is_incomplete() -> None:
    def many(outcomes: Outcomes) -> Protocol:
        for number in range(20):
            outcomes.choose(f"q{number}")
        return nothing()

    verdict = check_outcomes(many, limit=100)
    assert (verdict.outcomes, verdict.complete) == (100, False)


POLL = """
from tilesched.simulator.protocol.ops import Arrive, Barrier, Wait
from tilesched.simulator.protocol.program import Protocol, thread


def poll(k_blocks, stages=1, outcomes=None, fallback=0, polls=1):
    ready, done = Barrier("ready", 1), Barrier("done", 1)

    def consumer():
        for number in range(polls):
            if outcomes.choose(f"poll {number} came too early") == 0:
                yield Wait(ready, 0, 0)
        yield from [Wait(ready, 0, 0)] if fallback else []
        yield Arrive(done)

    def producer():
        yield Arrive(ready)
        yield Wait(done, 0, 0)
        yield Arrive(ready)

    return Protocol("poll", (thread("consumer", consumer()), thread("producer", producer())))
"""


def test_a_users_poll(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A poll that gives up: the next arrival comes though nobody saw the phase end."""
    path = tmp_path / "poll.py"
    path.write_text(POLL)
    one = ["protocol", "--protocol", f"{path}:poll", "--k-blocks", "1", "--tiles", "1"]
    assert main([*one, "--explain"]) == 1
    out = capsys.readouterr().out
    assert "error unobserved: with poll 0 came too early=1: an arrival of producer@CTA0 on ready" in out
    assert "a shortest way to unobserved" in out
    assert main([*one, "--set", "fallback=1"]) == 0
    capsys.readouterr()
    assert main([*one[:3], "--set", "fallback=1"]) == 3
    assert "outcomes, which are judged for one shape at a time" in capsys.readouterr().out
    assert main([*one, "--set", "polls=13", "--set", "fallback=1"]) == 3
    assert "more than 4096 outcomes" in capsys.readouterr().out
