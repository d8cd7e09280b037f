"""Child runs in `runs list`, `runs show`, `runs delete`, and where a run is named by a prefix."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from teamwright.journal.protocol import Batch, commit
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.events.event import Event
from teamwright.values.events.run import Origin, RunEnded, RunPaused, RunResumed, RunStarted
from teamwright.values.usage_and_prices import Usage
from tests.kit.terminal import Call


@pytest.fixture
def family(call: Call, team: Path) -> str:
    """A run, and two children of it that a worker drove: one has ended, and one waits for a person."""
    assert call("run", team, "Go", "--run-id", "whole").code == 0
    anyio.run(_add_children)
    return "whole"


async def _add_children() -> None:
    journal = SqliteJournal(Path(os.environ["TEAMWRIGHT_HOME"]) / "journal.db")
    await journal.open()
    first = (await journal.read("whole", limit=1))[0]
    assert isinstance(first.fact, RunStarted)
    for name, last in (
        ("whole-1", RunEnded(status="completed", stop_reason="done", usage=Usage(input_tokens=5))),
        ("whole-2", RunPaused(stop_reason="person")),
    ):
        origin = Origin(run_id="whole", number=3, how="place", key="report/chunk/run")
        facts = [first.fact.changed(team="annotator", origin=origin), RunResumed(driver="machine-7:42"), last]
        events = [Event(name, number, 1_700_000_000.0 + number, "", "", fact) for number, fact in enumerate(facts, 1)]
        await commit(journal, Batch(events, {}, source="whole"))
    await journal.close()


def test_children_are_counted_with_their_parent_and_listed_on_request(call: Call, family: str) -> None:
    (listed,) = call("runs", "list", "--json").json
    assert (listed["id"], listed["children"], "parent" in listed) == (family, 2, False)
    heads, row = call("runs", "list").out.splitlines()
    assert heads.endswith("CHILDREN")
    assert row.endswith("2 (1 paused)")
    every = call("runs", "list", "--full", "--json").json
    assert [(one["id"], one.get("parent")) for one in every] == [
        ("whole-2", family),
        ("whole-1", family),
        (family, None),
    ]
    assert call("runs", "list", "--full").out.splitlines()[0].endswith("PARENT")
    assert [one["id"] for one in call("runs", "list", "--limit", 1, "--json").json] == [family]


def test_a_parent_shows_its_children_with_worker_status_and_tokens(call: Call, family: str) -> None:
    shown = call("runs", "show", family).out
    assert "Child runs, whose tokens and price are included: 1 completed, 1 paused" in shown
    (line,) = (line for line in shown.splitlines() if line.strip().startswith("whole-2"))
    assert line.split()[1:5] == ["annotator", "machine-7:42", "paused", "(person)"]
    children = call("runs", "show", family, "--json").json["children"]
    assert [(one["id"], one["driver"], one["status"]) for one in children] == [
        ("whole-1", "machine-7:42", "completed"),
        ("whole-2", "machine-7:42", "paused"),
    ]
    assert "Parent   whole" in call("runs", "show", "whole-2").out
    assert call("runs", "show", "whole-2", "--json").json["parent"] == family


def test_a_prefix_and_last_mean_the_parent(call: Call, family: str) -> None:
    for wanted in ("who", "last"):
        assert call("runs", "show", wanted, "--json").json["run_id"] == family
    assert call("runs", "show", "whole-", "--json").code == 2, "two children begin like this"


def test_children_are_deleted_with_their_parent_and_never_without_it(call: Call, family: str) -> None:
    assert call("runs", "delete", "--status", "paused", "--yes", "--json").json["deleted"] == []
    assert call("runs", "delete", "--keep", 1, "--yes", "--json").json["deleted"] == []
    done = call("runs", "delete", "--keep", 0, "--yes", "--json").json
    assert sorted(done["deleted"]) == [family, "whole-1", "whole-2"]
