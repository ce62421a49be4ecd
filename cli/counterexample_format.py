"""A counterexample as a table: one column a role, beside them the barriers that a step changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap

from tilesched.simulator.protocol.explore import TrailStep
from tilesched.verify.counterexample import Counterexample

__all__ = ["counterexample_json", "counterexample_lines"]

_WIDTH = 26  # characters of a column
_ENGINE = "engine "  # before a step that is not the role's own: its TMA, tensor core or store


def counterexample_lines(example: Counterexample, *, markdown: bool) -> list[str]:
    """The table, and in a deadlock who waits for what. Nothing if no interleaving is known."""
    if example.trail is None:
        return []
    # Roles that take no step would be empty columns.
    shown = sorted({step.thread for step in example.trail.steps})
    head = ["step", *(example.roles[thread] for thread in shown), "barriers"]
    rows = [_row(number, step, shown) for number, step in enumerate(example.trail.steps, start=1)]
    lines = _markdown(head, rows) if markdown else _text(head, rows)
    return [*lines, *(f"then {text}" for text in example.trail.waiting)]


def counterexample_json(example: Counterexample) -> dict[str, object]:
    """The same as data."""
    return {
        "k_blocks": example.k_blocks,
        "tiles": example.tiles,
        "params": dict(example.params),
        "kind": example.kind and str(example.kind),
        "steps": None if example.trail is None else [_step_json(example, step) for step in example.trail.steps],
        "waiting": [] if example.trail is None else list(example.trail.waiting),
    }


def _step_json(example: Counterexample, step: TrailStep) -> dict[str, object]:
    return {
        "role": example.roles[step.thread],
        "by_engine": step.by_engine,
        "text": step.text,
        "barriers": [
            {"name": barrier.name, "cta": barrier.cta, "phase": value.phase, "pending": value.pending, "tx": value.tx}
            for barrier, value in step.changed
        ],
    }


def _row(number: int, step: TrailStep, shown: Sequence[int]) -> list[str]:
    text = (_ENGINE if step.by_engine else "") + step.text
    states = "; ".join(
        f"{barrier.name}@CTA{barrier.cta}: phase {value.phase}, {value.pending} of {value.size} pending"
        + (f", {value.tx} bytes" if value.tx else "")
        for barrier, value in step.changed
    )
    return [str(number), *(text if thread == step.thread else "" for thread in shown), states]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    last = len(head) - 1
    widths = [
        min(_WIDTH if column < last else 2 * _WIDTH, max(len(row[column]) for row in (head, *rows)))
        for column in range(len(head))
    ]
    lines = []
    for row in (head, *rows):
        cells = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            lines.append(" | ".join(padded).rstrip())
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return lines
