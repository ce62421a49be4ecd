"""The rule finder: it finds the shortest rule, tests it on more cases, and states none where none fits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.verify.rules import MAX_PREDICATES, Params, explain_failures, find_rule

GRID = [{"k": k, "s": s, "t": t} for k in range(1, 7) for s in range(1, 5) for t in range(1, 4)]


def more(count: int = 500) -> list[dict[str, int]]:
    draw = Random(0)
    return [{"k": draw.randint(1, 99), "s": draw.randint(1, 9), "t": draw.randint(1, 9)} for _ in range(count)]


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda p: True, "always"),
        (lambda p: p["t"] >= 2, "t >= 2"),
        (lambda p: p["k"] % p["s"] != 0, "k % s != 0"),
        (lambda p: p["k"] % 2 != 0, "k % 2 != 0"),
        (lambda p: p["k"] % p["s"] != 0 and p["t"] >= 2, "k % s != 0 and t >= 2"),
        (lambda p: p["k"] > p["s"] or p["t"] == 3, "k > s or t >= 3"),
        (lambda p: p["k"] % 2 != 0 and p["t"] >= 2 and p["s"] >= 3, "k % 2 != 0 and s >= 3 and t >= 2"),
        (lambda p: (p["k"] % 3 == 0 or p["s"] >= 4) and p["t"] >= 2, "(k % 3 == 0 or s >= 4) and t >= 2"),
    ],
)
def test_finds_the_shortest_rule(fails: Callable[[Params], bool], text: str) -> None:
    rule = find_rule([(case, fails(case)) for case in GRID])
    assert rule is not None
    assert rule.text == text
    assert all(rule.holds(case) == fails(case) for case in GRID)


def test_no_rule_where_nothing_fails_or_none_fits() -> None:
    assert find_rule([(case, False) for case in GRID]) is None
    assert find_rule([]) is None
    noise = Random(3)
    assert find_rule([(case, noise.random() < 0.5) for case in GRID]) is None


def test_a_rule_that_the_second_sample_contradicts_is_not_stated() -> None:
    report = explain_failures(lambda p: p["t"] >= 2 and p["k"] < 50, GRID, more())
    assert report.candidate is not None
    assert report.candidate.text == "t >= 2"
    assert report.rule is None
    assert report.counterexample is not None
    assert report.counterexample["k"] >= 50


def test_a_rule_that_holds_on_both_is_stated_with_the_sizes_of_the_samples() -> None:
    report = explain_failures(lambda p: p["k"] % p["s"] != 0 and p["t"] >= 2, GRID, more())
    assert report.rule is not None
    assert (report.rule.text, report.fitted, report.tested) == ("k % s != 0 and t >= 2", len(GRID), 500)


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_found_rule_always_fits(labels: list[bool]) -> None:
    cases = [({"a": place % 4, "b": place // 4}, label) for place, label in enumerate(labels)]
    rule = find_rule(cases)
    if rule is not None:
        assert rule.size <= MAX_PREDICATES
        assert all(rule.holds(params) == label for params, label in cases)
