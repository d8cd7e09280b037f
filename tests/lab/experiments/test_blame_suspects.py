from __future__ import annotations

import pytest

from teamwright.lab.experiments.blame import StepText, suspects

KEPT = '"Blue Note" KX-77'
TASK = f"Book {KEPT} for 12 people."


def named(*steps: StepText) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.key, one.why) for one in suspects(TASK, steps)]


def step(key: str, text: str, **more: object) -> StepText:
    kept = "" if '"' in text else f" {KEPT}"
    return StepText(key, f"m{key}", text + kept, **more)  # pyright: ignore[reportArgumentType] - fields of a test


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (step("1", "x"), step("2", "y", failure="it timed out"), "it failed: it timed out"),
        (step("1", "x"), step("2", "y", not_passed="no source"), "its review did not pass: no source"),
        (step("1", "x"), step("2", "y", failed_tools=("search",)), "its tool search failed"),
        (step("1", "x"), step("2", "Let us assume that it is free."), "it makes something up ('assume')"),
        (step("1", "For 12."), step("2", "For 13."), "it is the first to say 13"),
        (step("1", '"Blue Note", KX-77.'), step("2", '"Blue Note".'), "it leaves out 'KX-77'"),
    ],
)
def test_what_the_record_shows_of_a_step_makes_it_suspect(first: StepText, second: StepText, why: str) -> None:
    (key, reasons), *_ = named(first, second)
    assert (key, why in reasons) == ("2", True)


def test_a_step_that_a_later_member_doubts_is_suspect() -> None:
    doubted = named(step("1", "x"), step("2", "y"), step("3", "That is wrong."))
    assert doubted[0] == ("2", ("m3 doubts it",))
    by_name = named(step("1", "x"), step("2", "y"), step("3", "What m1 says is not correct."))
    assert by_name[0] == ("1", ("m3 doubts it",))


def test_where_nothing_speaks_for_a_step_the_earlier_one_comes_first() -> None:
    assert named(step("1", "x"), step("2", "y")) == [("1", ()), ("2", ())]
