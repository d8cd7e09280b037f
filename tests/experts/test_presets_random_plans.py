"""Whatever plan a team has and whatever fails, it ends as the rules say, and resumes to the same end from anywhere."""

from __future__ import annotations

import re
from typing import Any

import anyio
from hypothesis import given, settings, strategies as st

from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from tests.kit.collaboration import RACE, SPLIT, collaboration, statuses, steps_of
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK

NAMES = ("a", "b", "c")
STORY = re.compile(r"starts( retry starts)?( completed| finish failed|( retry)? cancelled)")
"""What may become of a step: up to two attempts, and an end, which is none of its own if the plan was abandoned."""

agents = st.lists(st.sampled_from(NAMES), min_size=2, max_size=3)
kinds = st.one_of(
    st.fixed_dictionaries({"agent": st.sampled_from(NAMES)}),
    st.builds(lambda names: {"parallel": SPLIT, "parts": _parts(names)}, agents),
    st.builds(
        lambda names, merge, enough: {"parallel": RACE, "agents": names, "merge": merge} | enough,
        agents,
        st.sampled_from(("best", "vote", "fusion")),
        st.sampled_from(({}, {"enough": 1})),
    ),
)


def _parts(names: list[str]) -> list[dict[str, str]]:
    return [{"id": f"part-{place}", "agent": name} for place, name in enumerate(names)]


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 4))
    needs = [draw(st.lists(st.sampled_from([f"p{n}" for n in range(place)]), unique=True)) if place else []
             for place in range(count)]  # fmt: skip
    return [{"id": f"p{place}", "needs": needs[place], **draw(kinds)} for place in range(count)]


def make(steps: list[dict[str, Any]], failures: dict[str, int]) -> Team:
    """A team in which each member fails so many times before it answers."""
    pick = Rule(agent="lead", match="best one", reply='{"winner": "answer-1", "reason": "."}')
    members = {
        name: ScriptedAgent(name, [Rule(error="refused", times=failures[name]), Rule(reply=f"{name} is done")])
        if failures.get(name)
        else ScriptedAgent(name, [Rule(reply=f"{name} is done")])
        for name in NAMES
    }
    keep = Rule(agent="lead", match="is tried once more", reply="{}")
    members["lead"] = ScriptedAgent("lead", [keep, pick, Rule(reply="the answer")])
    return collaboration(FakeMembers(), steps, members=members)


@settings(max_examples=40, deadline=None)
@given(plans(), st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, st.integers(0, 3))), st.floats(0, 1))
def test_a_plan_ends_as_the_rules_say_and_resumes_to_the_same_end(
    steps: list[dict[str, Any]], failures: dict[str, int], cut: float
) -> None:
    anyio.run(_check, steps, failures, cut)


async def _check(steps: list[dict[str, Any]], failures: dict[str, int], cut: float) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            result = await engine.run(make(steps, failures), TASK, run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    assert (result.status in ("completed", "degraded"), result.output) == (True, "the answer")
    assert sum(event.kind == "team.ended" for event in events) == 1
    _check_story(steps, events)
    at = 1 + int(cut * (len(events) - 2))
    again, _ = await cut_and_resume(make(steps, failures), at, journal)
    assert again.output == result.output


def _check_story(steps: list[dict[str, Any]], events: list[Event]) -> None:
    """Each phase has a story of the allowed form, starts after what it needs, and a second failure ends the plan."""
    told, done = dict[str, list[str]](), set[str]()
    needs = {step["id"]: set(step["needs"]) for step in steps}
    for line in steps_of(events):
        phase, status, *_ = line.split()
        if status == "starts":
            assert needs[phase] <= done
        elif status == "completed":
            done.add(phase)
        told.setdefault(phase, []).append(status)
    assert all(STORY.fullmatch(" ".join(story)) for story in told.values()), told
    failed = [story for story in told.values() if story[-1] == "failed"]
    assert statuses(events)[-1] == ("fallback" if failed else "completed")
    assert not failed or any("finish" in story for story in failed)
    assert failed or done == needs.keys()
