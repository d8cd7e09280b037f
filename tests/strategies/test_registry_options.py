"""The options of a declaration, checked against its strategy: all mistakes together."""

from __future__ import annotations

import pytest
from pydantic import Field, JsonValue

from teamwright import FunctionAgent
from teamwright.strategies.plan.engine import Single
from teamwright.strategies.protocol import Members, Settings
from teamwright.strategies.registry import (
    find_strategy,
    named_agents,
    option_flaws,
    rename,
    settings_flaws,
    valid_options,
)
from teamwright.values.value import Value

MEMBERS = Members([FunctionAgent(name, lambda turn: "said") for name in ("a", "b")])


def told(strategy: str, options: dict[str, JsonValue]) -> list[tuple[tuple[str | int, ...], str]]:
    found = settings_flaws(find_strategy(strategy), Settings(options=options), MEMBERS)
    return [(flaw.at, flaw.text) for flaw in found]


def test_wrong_forms_and_what_the_strategy_objects_to_are_reported_at_once() -> None:
    places = [at for at, _ in told("selector", {"allow_repeat": "maybe", "prompt": "{{.Foo}}"})]
    assert places == [("allow_repeat",), (), (), ("prompt",)]


def test_wrong_forms_and_wrong_names_are_reported_at_once() -> None:
    edges: list[JsonValue] = [{"from": "a", "to": "x"}, {"form": "a", "to": "b"}]
    found = told("graph", {"edges": edges})
    assert [at for at, _ in found] == [("edges", 1, "from"), ("edges", 1, "form"), ("edges", 0, "to")]


def test_a_consequence_of_another_mistake_is_not_reported() -> None:
    [(at, _)] = told("graph", {"edges": "a to b"})
    assert at == ("edges",)
    [(at, text)] = told("reactive", {"subscriptions": [{"agent": "a", "on": "ä"}]})
    assert at == ("subscriptions", 0, "on")
    assert text.startswith("subscriptions.0.on: 'ä' is no name: use letters, digits")


class Pairs(Value):
    rows: tuple[int, ...] = Field(min_length=2)


class Pairing(Single):
    options = Pairs


@pytest.mark.parametrize(
    ("rows", "places"), [([], [("rows",)]), ([1], [("rows",)]), (["x"], [("rows", 0)]), ([1, "x"], [("rows", 1)])]
)
def test_a_list_that_is_too_short_is_reported_unless_its_items_are_wrong(
    rows: list[JsonValue], places: list[tuple[str | int, ...]]
) -> None:
    assert [flaw.at for flaw in option_flaws(Pairing(), {"rows": rows})] == places


@pytest.mark.parametrize(
    ("options", "usable"),
    [
        ({"steps": 3, "max_parallel": 0}, {}),
        ({"steps": [{"id": "s"}], "max_parallel": 0, "mx": 1}, {"steps": [{"id": "s"}]}),
        ({"steps": [{"id": "s"}]}, {"steps": [{"id": "s"}]}),
        ({"max_parallel": 0}, {}),
    ],
)
def test_only_a_field_that_has_another_value_can_be_left_out(
    options: dict[str, JsonValue], usable: dict[str, JsonValue] | None
) -> None:
    dag = find_strategy("dag")
    assert valid_options(dag, options, option_flaws(dag, options)) == usable


def test_a_name_is_found_and_replaced_at_its_place() -> None:
    strategy = find_strategy("graph")
    options: dict[str, JsonValue] = {"edges": [{"from": "a", "to": "b"}]}
    assert [(one.name, one.at, one.kind) for one in named_agents(strategy, options)] == [
        ("a", ("edges", 0, "from"), "member"),
        ("b", ("edges", 0, "to"), "member"),
    ]
    rename(options, ("edges", 0, "to"), "c")
    assert options == {"edges": [{"from": "a", "to": "c"}]}
    assert not option_flaws(strategy, options)
