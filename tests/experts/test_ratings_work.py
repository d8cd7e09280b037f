from __future__ import annotations

from typing import Any

from teamwright import Engine, FunctionAgent, load_team
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.experts.ratings import RatedWork, read_work, templates_in, work_in
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from tests.kit.evaluators import AnyEvaluator, WordEvaluator, words
from tests.kit.members import FakeMembers
from tests.paths import EXAMPLES


async def works(team: Team, **options: Any) -> list[RatedWork]:
    async with Engine(MemoryJournal()) as engine:
        await engine.run(team, "go", run_id="r", **options)
        return (await read_work(engine.journal, "r")).pieces


async def test_a_piece_of_work_has_all_its_attempts_and_what_they_and_their_reviews_used() -> None:
    async with Engine(MemoryJournal()) as engine:
        folder = EXAMPLES / "rubric"
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text(), run_id="r")
        found = (await read_work(engine.journal, "r")).pieces
    assert [(one.member, one.attempts, one.is_passed) for one in found] == [("collector", 2, True), ("writer", 3, True)]
    assert found[0].judging.total_tokens == 0
    assert found[1].judging.requests == 9
    spent = sum(one.usage.total_tokens + one.judging.total_tokens for one in found)
    assert spent == result.usage.total_tokens


async def test_work_that_fails_or_is_not_judged_is_work_too() -> None:
    made = FakeMembers()

    def crash() -> object:
        raise RuntimeError("broken")

    def fail(text: str) -> str:
        raise RuntimeError("no")

    members = [
        made.member("plain"),
        FunctionAgent("unlucky", lambda text: "a text", evaluate=AnyEvaluator(words(risk="low"), crash)),
        FunctionAgent("failing", fail, optional=True),
    ]
    found = {one.member: one for one in await works(Team("t", members=members))}
    assert {name: (one.failed, one.is_judged) for name, one in found.items()} == {
        "plain": (False, False),
        "unlucky": (False, False),
        "failing": (True, False),
    }
    assert found["unlucky"].verdict is not None
    assert found["unlucky"].verdict.outcome == "review_exceeded"


async def test_evaluators_and_teams_are_not_rated_as_members() -> None:
    inner = Team("inner", members=[FakeMembers().member("a", "a good text")], evaluate=WordEvaluator(words()))
    found = await works(Team("t", members=[inner]))
    assert [(one.member, one.is_judged) for one in found] == [("a", False)]


async def test_what_a_fork_inherits_is_rated_once() -> None:
    rules = [Rule(reply="first", times=1), Rule(reply="second", times=1), Rule(reply="a good third")]
    members = [
        ScriptedAgent("planner", [Rule(reply="a plan")]),
        ScriptedAgent("writer", rules, evaluate=WordEvaluator(words(rounds=2))),
    ]
    async with Engine(MemoryJournal()) as engine:
        team = Team("t", members=members)
        await engine.run(team, "go", run_id="r")
        await engine.fork("r", retry=True, team=team, new_id="s")
        one, two = await read_work(engine.journal, "r"), await read_work(engine.journal, "s")
    assert [work.member for work in one.pieces] == ["planner", "writer"]
    assert [work.member for work in two.pieces] == ["writer"]


async def test_work_that_was_stopped_is_none() -> None:
    team = Team("t", members=[ScriptedAgent("writer", [Rule(reply="x")])], limits=Limits(tokens=1))
    assert [one.member for one in await works(team) if not one.failed] == []


def test_the_templates_of_experts_are_those_that_the_run_recorded() -> None:
    agents: dict[str, Any] = {"ann": {"expert": {"template": "editor"}}, "bob": {"expert": {}}, "eve": {}}
    assert templates_in({"manifest": {"agents": agents}}) == {"ann": "editor"}
    assert templates_in(None) == {}


def test_a_run_without_events_has_no_work() -> None:
    assert work_in([], {}) == []
