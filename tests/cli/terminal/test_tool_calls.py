"""Arguments and results as text: folded to a line or whole, without secrets and control characters, however large."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.cli.terminal.tool_calls import FOLDED, call_text, folded_line, folded_value, whole_text, with_texts
from teamwright.values.events.agent import AgentCalled

SECRET = "sk-proj-abcdefghijklmnop123456"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("sunny\nand  warm", "sunny and warm"),
        ("", "(empty)"),
        ({"city": "Oslo", "days": 3}, '{"city": "Oslo", "days": 3}'),
        (None, "null"),
        ("\x1b[31mred\x1b[0m\x07 \u202ebell", "red bell"),
        (f"use {SECRET} here", "use [redacted] here"),
        ({"password": "correct-horse-battery"}, '{"password": "[redacted]"}'),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, '{"a": {"b": {"c": {"d": "…"}}}}'),
    ],
)
def test_a_value_is_folded_to_one_safe_line(value: JsonValue, line: str) -> None:
    assert folded_line(value) == line


def test_a_long_text_says_how_long_it_is() -> None:
    line = folded_line("wide 宽 " * 600_000)
    assert line.startswith("wide 宽 wide")
    assert line.endswith("… (4 200 000 characters)")
    assert len(line) < FOLDED + 40


def test_a_secret_at_the_cut_is_masked_before_it_is_cut() -> None:
    assert SECRET[:10] not in folded_line("x" * (FOLDED - 12) + f" {SECRET} " + "y" * 500)


def test_long_lists_and_objects_show_their_first_items() -> None:
    assert folded_value(list(range(1000))) == [*range(20), "…"]
    assert folded_value({str(n): n for n in range(1000)}) == {**{str(n): n for n in range(20)}, "…": "…"}


def test_folding_twice_changes_nothing_but_long_texts() -> None:
    value: JsonValue = {"rows": [[1, "two"], {"three": None}]}
    assert folded_value(folded_value(value)) == value


def test_a_whole_value_is_indented_only_if_it_is_longer_than_a_line() -> None:
    assert whole_text({"city": "Oslo"}) == '{"city": "Oslo"}'
    assert whole_text({"text": "x" * FOLDED}).splitlines()[0] == "{"
    assert whole_text("one\ntwo") == "one\ntwo"


def test_values_follow_their_sentence() -> None:
    assert with_texts("calls the tool t", {"arguments": {}}, full=False) == "calls the tool t"
    assert with_texts("calls the tool t", {"arguments": {"n": 1}}, full=False) == 'calls the tool t: {"n": 1}'
    assert with_texts("Did you mean u?", {"arguments": {"n": 1}}, full=False) == 'Did you mean u? ({"n": 1})'
    assert with_texts("t returned", {"result": "a\nb"}, full=True) == "t returned:\na\nb"


def test_a_call_whose_outcome_is_unknown_is_not_said_to_be_made_again() -> None:
    called = AgentCalled(effect="tool", name="pay", request="", attempt=2)
    assert call_text(called) == "calls the tool pay, attempt 2"
    in_doubt = AgentCalled(effect="tool", name="pay", request="", attempt=2, in_doubt=True)
    assert call_text(in_doubt) == "returns to its interrupted call of the tool pay, attempt 2"
