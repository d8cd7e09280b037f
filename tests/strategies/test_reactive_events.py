"""Events within a reactive team, and what follows from a reply; its options, and their mistakes with positions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from teamwright import load_team
from teamwright.errors import ManifestError
from teamwright.strategies.reactive import (
    MOST_LINKS,
    REACTION_SCHEMA,
    Reaction,
    ReactionInput,
    ReactiveOptions,
    TeamEvent,
    condition_flaws,
    read_reaction,
)
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.turns.messages import EMPTY
from teamwright.values.turns.turn import Reply

START = TeamEvent("1", "workflow.started", data="the task")


def read(value: object) -> Reaction | ParseFailure:
    return read_reaction(Reply.of("a", value if isinstance(value, str) else json.dumps(value)))


def events(reaction: Reaction | ParseFailure) -> list[tuple[str, JsonValue]]:
    assert isinstance(reaction, Reaction)
    return [(one.type, one.data) for one in reaction.events]


def test_events_and_state_are_read() -> None:
    reaction = read({"events": [{"type": "x", "data": 1}, {"type": "y"}], "state": {"n": 2}, "why": "so"})
    assert events(reaction) == [("x", 1), ("y", None)]
    assert isinstance(reaction, Reaction)
    assert reaction.state == {"n": 2}


def test_fields_beside_the_type_are_the_data() -> None:
    assert events(read({"events": [{"type": "x", "file": "a.py", "n": 1}]})) == [("x", {"file": "a.py", "n": 1})]
    assert events(read({"events": [{"type": "x", "data": 0, "n": 1}]})) == [("x", 0)]


@pytest.mark.parametrize("said", ["", "All is well.", "[1, 2]", '{"passed": true}', '{"event": {"type": "x"}}'])
def test_plain_text_and_other_data_emit_no_events(said: str) -> None:
    assert read(said) == Reaction()


@pytest.mark.parametrize(
    "said",
    [
        {"events": "x"},
        {"events": ["x"]},
        {"events": [{"type": None}]},
        {"events": [{"data": 1}]},
        {"events": [{"type": "with space"}]},
        {"events": [{"type": "workflow.started"}]},
        {"events": [{"type": "agent.error"}]},
        {"events": [{"type": "x" * 65}]},
        {"state": None},
        {"state": ["n"]},
    ],
)
def test_what_means_to_say_something_and_does_not_is_unreadable(said: object) -> None:
    assert isinstance(read(said), ParseFailure)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["events", "state", "type", "data", "x"]), inner), max_leaves=10))  # fmt: skip
def test_nothing_that_is_said_breaks_the_reader(said: object) -> None:
    assert isinstance(read(said), Reaction | ParseFailure)


def test_the_form_that_is_asked_for_fits_what_is_read() -> None:
    Draft202012Validator.check_schema(REACTION_SCHEMA)
    example = {"events": [{"type": "x", "data": {"n": [1]}}], "state": {"any": "thing"}}
    assert Draft202012Validator(REACTION_SCHEMA).is_valid(example)
    assert isinstance(read(example), Reaction)


def test_an_event_knows_what_it_follows_from() -> None:
    second = START.caused_event("2-1", "found", "a", 7).caused_event("1-error", "agent.error", "b", None)
    assert (second.id, second.depth, second.chain()) == (
        "1.2-1.1-error",
        2,
        ("workflow.started", "found", "agent.error"),
    )


def test_of_a_long_chain_the_nearest_links_are_reported_and_of_a_loop_one_turn() -> None:
    event = START
    for number in range(30):
        event = event.caused_event("1-1", f"e{number}", "a", None)
    assert event.chain() == tuple(f"e{number}" for number in range(30 - MOST_LINKS, 30))
    for kind in ("ping", "pong", "ping", "pong", "ping"):
        event = event.caused_event("1-1", kind, "a", None)
    assert event.chain() == ("ping", "pong", "ping")


def test_the_task_comes_last_and_only_members_that_need_the_schema_receive_it() -> None:
    event = START.caused_event("1-1", "found", "a", {"n": 1})
    told = ReactionInput(event, {"open": True}, EMPTY, "the task")
    assert told.task().startswith('An event has come: {"type":"found","by":"a","data":{"n":1}}')
    assert told.task("no JSON").endswith("could not be used: no JSON. Answer again.\n\nThe task:\nthe task")
    assert "JSON object" in told.task()
    assert "JSON object" not in told._replace(wants_form=False).task()
    assert ReactionInput(START, {}, EMPTY, "the task").task().count("the task") == 1


def test_without_the_task_it_is_json_alone_also_when_reported_back() -> None:
    told = ReactionInput(START, {"n": 1}, EMPTY)
    assert json.loads(told.task()) == {"event": {"type": "workflow.started", "data": "the task"}, "state": {"n": 1}}
    assert json.loads(told.task("no good"))["problem"] == "no good"


MANIFEST = """\
agents:
  a: {function: "builtins:str"}
teams:
  t:
    strategy: reactive
    members: [a]
    reactive:
      goal: stat.done
      subscriptions:
        - {agent: a, on: workflow.started, when: "dta.x"}
        - {agent: b, on: found}
        - {agent: a, on: found, emits: [{type: agent.error}]}
"""


def test_every_condition_that_cannot_be_read_is_reported_with_its_place() -> None:
    options = ReactiveOptions.model_validate(
        {
            "subscriptions": [
                {
                    "agent": "a",
                    "on": "x",
                    "when": "data.n > 1 and by == 'b' and depth < 3 and type != 'y' and state.z",
                },
                {"agent": "a", "on": "x", "when": "text == ''"},
                {"agent": "a", "on": "x", "emits": [{"type": "y", "when": "text == '' or data.z or state.z"}]},
                {"agent": "a", "on": "x", "emits": [{"type": "y"}, {"type": "y", "when": "depth > 1"}]},
            ],
            "goal": "state.done and 'x' in emitted and (",
        }
    )
    assert [flaw.at for flaw in condition_flaws(options)] == [
        ("subscriptions", 1, "when"),
        ("subscriptions", 3, "emits", 1, "when"),
        ("goal",),
    ]


@pytest.mark.parametrize(
    ("repaired", "lines"),
    [
        ({}, [11, 12]),
        ({"agent.error": "repaired"}, [8, 10, 11]),
        ({"agent.error": "repaired", "agent: b": "agent: a"}, [8, 10]),
    ],
)
def test_a_manifest_shows_mistakes_with_their_lines(
    tmp_path: Path, repaired: dict[str, str], lines: list[int]
) -> None:
    text = MANIFEST
    for wrong, right in repaired.items():
        text = text.replace(wrong, right)
    file = tmp_path / "team.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_team(file)
    assert [problem.line for problem in caught.value.problems] == lines


def test_the_limits_have_defaults() -> None:  # P-07
    options = ReactiveOptions.model_validate({"subscriptions": [{"agent": "a", "on": "workflow.started"}]})
    assert (options.max_events, options.max_depth, options.max_parallel, options.on_failure) == (100, 20, 10, "fail")
