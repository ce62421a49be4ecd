"""The README's commands run, and end as they should; those that install, or need a GPU, run elsewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line.split("  #")[0].strip()
    for block in BLOCKS
    for line in block.splitlines()
    if line.startswith("tilesched-sim") and " record " not in f"{line} "
]
ENDS = {"fault_wrong_stride": 1, "manual_1cta": 1, "seed-1cta": 1, "k_grouped": 1}  # all others end clean


def test_the_commands_are_there() -> None:
    assert len(COMMANDS) >= 7
    assert sum(line.startswith("pip install") for block in BLOCKS for line in block.splitlines()) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme(command: str, tmp_path: Path) -> None:
    words = [str(tmp_path / word) if word.endswith(".png") else word for word in shlex.split(command)]
    done = subprocess.run(
        [sys.executable, "-m", "tilesched", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    expected = next((code for part, code in ENDS.items() if part in command), 0)
    assert (done.returncode, done.stderr) == (expected, "")
    assert done.stdout


def test_every_json_schema_is_documented() -> None:
    documented = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    stated = set()
    for path in (*(ROOT / "cli").glob("*.py"), ROOT / "simulator" / "trace.py"):
        stated |= set(re.findall(r"\"(tilesched/[a-z-]+/[0-9]+)\"", path.read_text()))
    assert len(stated) >= 7
    assert {schema for schema in stated if schema not in documented} == set()
