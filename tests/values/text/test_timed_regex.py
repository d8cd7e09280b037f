"""Regular expressions that others wrote: searched within a time limit, which is an error and never a match."""

from __future__ import annotations

import time

import pytest

from teamwright.agents.json_schema import as_schema, check
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import InvalidOutput, PatternTooSlow, UsageError
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.text.timed_regex import MOST_CHARACTERS, PatternSearch, pattern_problem

SLOW = r"(a|a)*$"
LONG = "a" * 60 + "b"
BOMBS = [SLOW, r"(a|aa)+$", r"(?:a?){1000}a{1000}c", r"((a{1,100}){1,100}){1,100}c", r"(?:(?:a{1,300}){1,300}){1,300}b"]


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_search_that_takes_too_long_is_an_error_and_no_match(pattern: str) -> None:  # S-01
    begun = time.process_time()
    with pytest.raises(PatternTooSlow, match="takes too long"):
        PatternSearch(0.2).found(pattern, "a" * 5_000 + "d")
    assert time.process_time() - begun < 5  # once around, it is a second; nothing here depends on the machine


def test_searches_of_one_question_share_their_time() -> None:  # S-01
    search = PatternSearch(0.05)
    for _ in range(2):
        with pytest.raises(PatternTooSlow):
            search.found(SLOW, LONG)
    assert PatternSearch().found("b", LONG)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("^# a:$", "# a:", True), (r"(?s)one.*two", "one\ntwo", True), (r"\bx\b", "xy", False), ("(?i)ABC", "abc", True)],
)
def test_an_ordinary_expression_means_what_it_means_elsewhere(pattern: str, text: str, *, found: bool) -> None:
    assert PatternSearch().found(pattern, text) is found


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "x" * (MOST_CHARACTERS + 1), "(" * 5_000 + ")" * 5_000, "[z-a]"])
def test_a_value_that_is_no_expression_is_reported_before_anything_is_searched(pattern: str) -> None:
    assert pattern_problem(pattern)
    with pytest.raises(ValueError, match="not a regular expression"):
        Rule(match=pattern, reply="x")


async def test_a_script_whose_expression_takes_too_long_fails_the_turn_with_a_clear_message() -> None:  # S-01
    team = Team("t", members=[ScriptedAgent("a", [Rule(match=SLOW, reply="x")])])
    async with Engine("memory") as engine:
        result = await engine.run(team, LONG)
    assert result.failure is not None
    assert (result.status, result.failure.error) == ("failed", "pattern")
    assert "takes too long" in result.failure.message


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, LONG),
        ({"patternProperties": {SLOW: {}}}, {LONG: 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {LONG: 1}),
        ({"propertyNames": {"pattern": SLOW}}, {LONG: 1}),
    ],
)
def test_a_schema_whose_expression_takes_too_long_fits_nothing(
    schema: dict[str, object], value: object
) -> None:  # S-01
    with pytest.raises(InvalidOutput, match="can't be checked: The search for the regular expression"):
        check(schema, value, "it")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "words"),
    [
        ({"pattern": "^a+$"}, "aaa", "b", "'b' does not match"),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": 1, "x": "y"}, {"n_a": "y"}, "at 'n_a'"),
        (
            {"properties": {"a": {}}, "patternProperties": {"^n_": {}}, "additionalProperties": False},
            {"a": 1, "n_b": 2},
            {"c": 1, "d": 1},
            "'c', 'd' were unexpected",
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": "x"}, {"a": 1}, "at 'a'"),
    ],
)
def test_expressions_in_schemas_still_tell_what_fits(
    schema: dict[str, object], good: object, bad: object, words: str
) -> None:
    check(schema, good, "it")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidOutput, match=words):
        check(schema, bad, "it")  # pyright: ignore[reportArgumentType]


def test_a_schema_that_could_only_be_checked_without_a_limit_is_refused() -> None:  # S-01
    schema = {"unevaluatedProperties": False, "allOf": [{"patternProperties": {SLOW: {}}}]}
    with pytest.raises(UsageError, match="unevaluatedProperties can't be used together with patternProperties"):
        as_schema(schema, "the answer")
    with pytest.raises(UsageError, match="characters, and at most"):
        as_schema({"pattern": "x" * (MOST_CHARACTERS + 1)}, "the answer")
