"""Damaged kernels: whatever a text becomes, it is refused in one line or run to a verdict, never a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding
from tilesched.simulator.ptx.engines import Ordering, Policy
from tilesched.simulator.ptx.kinds import MachineKind
from tilesched.simulator.ptx.launch import Launch
from tilesched.simulator.ptx.machine import Limits
from tilesched.simulator.ptx.run import run

DATA = Path(__file__).parents[1] / "data" / "ptx"
WORDS = re.findall(r"\s+|[\w$%.:]+|.", (DATA / "copy_tiles.ptx").read_text())
LAUNCH = Launch.from_json(json.loads((DATA / "copy_tiles.json").read_text()))
PLACES = [index for index, word in enumerate(WORDS) if not word.isspace()]
REGISTERS = [index for index in PLACES if re.fullmatch(r"%rd?\d+", WORDS[index])]
STRANGE = ["", "0", "-1", "4294967295", "%r1", "_", "!", "{", "}", "[", "%tid.x", "stages", ".u32", ".s64", "'", "0f1"]

replacement = st.tuples(st.sampled_from(PLACES), st.sampled_from([*STRANGE, *dict.fromkeys(WORDS)]))
exchange = st.tuples(st.sampled_from(REGISTERS), st.sampled_from([WORDS[index] for index in REGISTERS]))


@settings(max_examples=max(20, settings().max_examples // 4))
@given(damage=st.lists(st.one_of(replacement, exchange), min_size=1, max_size=3), policy=st.sampled_from(list(Policy)))
def test_damage_is_refused_or_judged(damage: list[tuple[int, str]], policy: Policy) -> None:
    words = list(WORDS)
    for place, word in damage:
        words[place] = word
    findings: list[Finding] = []
    refusal = ""
    try:
        findings = run("".join(words), LAUNCH, ordering=Ordering(policy), limits=Limits(steps=20_000)).findings
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert all(isinstance(finding.kind, MachineKind) for finding in findings)
    json.dumps([dict(finding.facts) for finding in findings])  # a report can hold them
