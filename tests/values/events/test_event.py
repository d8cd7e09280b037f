"""Events and folds."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import ValidationError, convert, json

from teamwright.values.events.agent import AgentReplied, Tally
from teamwright.values.events.event import Domain, Event, Fact, fold
from teamwright.values.events.run import Custom, RunEnded, RunLogged, ScopeExpired
from teamwright.values.usage_and_prices import Usage

KINDS = get_args(Fact)


def test_every_kind_is_in_a_known_domain() -> None:
    for kind in KINDS:
        assert kind.kind.partition(".")[0] in get_args(Domain)


def test_no_two_kinds_share_a_word() -> None:
    words = [kind.kind for kind in KINDS]
    assert len(words) == len(set(words))


def test_no_fact_hides_what_the_event_says_of_itself() -> None:
    head = {"run_id", "number", "time", "domain", "scope", "key", "version"}
    clashes = {
        kind.__name__: head & set(kind.__struct_fields__) for kind in KINDS if head & set(kind.__struct_fields__)
    }
    assert clashes == {"Custom": {"domain"}}  # the one open kind brings its own


def test_an_event_is_one_flat_object_outside() -> None:
    event = Event("r", 3, 1.5, "team/step-1", "request-1", ScopeExpired(seconds=2.0))
    assert event.to_json() == {
        "run_id": "r", "number": 3, "time": 1.5, "domain": "run", "kind": "run.expired", "scope": "team/step-1",
        "key": "team/step-1/request-1", "version": 2, "seconds": 2.0,
    }  # fmt: skip


def test_a_custom_event_is_open_in_its_data_alone() -> None:
    event = Event("r", 1, 0.0, "", "", Custom(domain="shop", name="sold", data={"n": [1, None]}))
    assert (event.domain, event.kind) == ("custom", "custom")
    assert event.to_json()["data"] == {"n": [1, None]}
    with pytest.raises(ValidationError):
        convert({"domain": "d", "name": "n", "more": 1}, Custom)


@pytest.mark.parametrize(
    "fact",
    [
        RunEnded(status="completed", stop_reason="done", usage=Usage(requests=1, usd=0.5), warnings=("w",)),
        AgentReplied(usage=Usage(input_tokens=3), tally=Tally(calls=2, charged=9, marks=("rule-1",))),
        Custom(domain="d", name="n", data="\x00\x1b"),
    ],
)
def test_a_fact_is_the_same_after_a_round_trip(fact: Fact) -> None:
    assert json.decode(json.encode(fact), type=type(fact)) == fact


class Numbers:
    """Collects the numbers of events."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def apply(self, event: Event) -> None:
        self.found.append(event.number)


def test_events_are_applied_in_order_and_the_fold_is_returned() -> None:
    into = Numbers()
    found = fold((Event("r", number, 0.0, "", "", RunLogged(text="x")) for number in (1, 2, 3)), into)
    assert found is into
    assert found.found == [1, 2, 3]


def test_no_events_change_nothing() -> None:
    assert fold([], Numbers()).found == []
