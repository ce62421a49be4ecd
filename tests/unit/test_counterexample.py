"""The table of a counterexample: one column a role, engines marked, barrier states beside the steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilesched.cli.main import main

# One slot, a consumer that frees it before it reads: the second write can come first.
EARLY = """
from tilesched.simulator.protocol.ops import Access, Arrive, Barrier, Mode, Slot, Touch, Wait
from tilesched.simulator.protocol.program import Protocol, thread


def early(k_blocks, stages=1):
    full, empty, x = Barrier("full", 1), Barrier("empty", 1), Slot("x")

    def produce():
        for count in range(sum(k_blocks)):
            yield Wait(empty, count - 1, (count - 1) & 1)
            yield Touch(Access(x, Mode.WRITE, count))
            yield Arrive(full)

    def consume():
        for count in range(sum(k_blocks)):
            yield Wait(full, count, count & 1)
            yield Arrive(empty)
            yield Touch(Access(x, Mode.READ, count))

    return Protocol("early", (thread("produce", produce()), thread("consume", consume()), thread("idle", [])))
"""


@pytest.fixture
def early(tmp_path: Path) -> list[str]:
    path = tmp_path / "early.py"
    path.write_text(EARLY)
    return ["protocol", "--protocol", f"{path}:early", "--k-blocks", "4", "--tiles", "3", "--explain"]


def test_the_table(early: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The steps to the race, by hand: write, full, freed; then both the read and the second write are next."""
    assert main(early) == 1
    lines = capsys.readouterr().out.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("step"))
    assert lines[begin - 2] == "k_blocks = 1, stages = 1, tiles = 2: a shortest way to race"
    cells = [[cell.strip() for cell in line.split("|")] for line in lines[begin:] if "-+-" not in line]
    assert cells[0] == ["step", "produce@CTA0", "consume@CTA0", "barriers"]
    steps: dict[str, list[str]] = {}
    number = ""
    for row in cells[1:]:
        number = row[0] or number
        before = steps.get(number, [""] * 3)
        steps[number] = [f"{old} {new}".strip() for old, new in zip(before, row[1:], strict=True)]
    assert steps == {
        "1": ["passes the wait for phase -1 of empty", "", ""],
        "2": ["writes x", "", ""],
        "3": ["arrives on full", "", "full@CTA0: phase 1, 1 of 1 pending"],
        "4": ["", "passes the wait for phase 0 of full", ""],
        "5": ["", "arrives on empty", "empty@CTA0: phase 1, 1 of 1 pending"],
        "6": ["passes the wait for phase 0 of empty", "", ""],
    }


def test_markdown_and_json(early: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*early, "--format", "markdown"]) == 1
    assert "| 2 | writes x |  |  |" in capsys.readouterr().out
    assert main([*early, "--format", "json"]) == 1
    example = json.loads(capsys.readouterr().out)["counterexample"]
    assert (example["k_blocks"], example["tiles"], example["kind"]) == (1, 2, "race")
    assert [step["role"] for step in example["steps"]] == ["produce@CTA0"] * 3 + ["consume@CTA0"] * 2 + ["produce@CTA0"]
    assert example["steps"][2]["barriers"] == [{"name": "full", "cta": 0, "phase": 1, "pending": 1, "tx": 0}]
    assert example["waiting"] == []


def test_a_deadlock_ends_with_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """A count that is higher than what arrives: the second query waits for it for ever."""
    arguments = ["--set", "finished_count=14", "--set", "epilogue_warps=1", "--tiles", "1", "--explain"]
    assert main(["protocol", "clc-scheduler", *arguments]) == 1
    out = capsys.readouterr().out
    assert "a shortest way to deadlock" in out
    assert "engine delivers 16 bytes" in " ".join(out.split())
    assert "then scheduler0@CTA0 waits on finished[0] for phase 0 (parity 0)" in out
