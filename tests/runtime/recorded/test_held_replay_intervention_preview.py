"""A run without a driver refuses what its next driver would refuse, before it is acknowledged, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from teamwright import Engine, load_team
from teamwright.errors import InterventionRefused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.recorded.runs import Runs
from teamwright.teams.team import Team
from teamwright.values.events.run import RunRefused
from teamwright.values.limits import Limits
from teamwright.values.people import AddMember, EditPlan, PauseMember, RemoveMember, RestorePlan, Steer, StopStep, Tell
from tests.kit.members import FakeMembers
from tests.kit.records import cut

STEPS: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}]
TEAMS: dict[str, dict[str, Any]] = {
    "dag": {"strategy": "dag", "options": {"steps": STEPS}},
    "led": {"strategy": "plan", "options": {"steps": STEPS, "lead": "lead", "answer": "lead", "timeout": 60}},
    "star": {"strategy": "star_team", "options": {"steps": STEPS}},
}
SPEC: Any = {"function": f"{__name__}:newcomer"}
OWN = """
from pathlib import Path
Path(__file__).with_name("seen").touch()
def work(task):
    return "done"
"""
COMMAND: Any = {"id": "c", "evaluate": {"criteria": [{"id": "x", "command": ["ls"]}]}}


def newcomer(task: str) -> str:
    """Answer as a member that joins."""
    return "new is here"


def put(**step: Any) -> EditPlan:
    return EditPlan(plan={"put": [step]})


SENT: list[Steer] = [
    put(id="z", agent="zzz"),
    put(id="z", agent="a"),
    put(id="answer", agent="a"),
    put(id="c", agent="b", needs=["b"]),
    put(**COMMAND),
    EditPlan(plan={"remove": ["c"]}),
    RestorePlan(plan_version=7),
    StopStep(step="zz"),
    RemoveMember(member="zzz"),
    RemoveMember(member="a"),
    AddMember(member="a", spec=SPEC),
    AddMember(member="new", spec=SPEC),
    Tell(text="Hello.", to="zzz"),
    Tell(text="Hello.", to="c"),
    PauseMember(member="zzz"),
]
SENDERS: dict[type[Steer], Callable[[Runs, Any], Awaitable[object]]] = {
    EditPlan: lambda runs, one: runs.edit_plan("r", one.plan),
    RestorePlan: lambda runs, one: runs.restore_plan("r", one.plan_version),
    StopStep: lambda runs, one: runs.stop_step("r", one.step),
    AddMember: lambda runs, one: runs.add_member("r", one.member, one.spec),
    RemoveMember: lambda runs, one: runs.remove_member("r", one.member),
    Tell: lambda runs, one: runs.say("r", one.text, to=one.to),
    PauseMember: lambda runs, one: runs.pause_member("r", one.member),
}


def make(name: str) -> Team:
    return Team("t", members=FakeMembers().members("lead a b c"), **TEAMS[name])


@pytest.mark.parametrize("name", TEAMS)
async def test_what_is_refused_without_a_driver_is_what_the_next_one_refuses(name: str) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(make(name), "Go.", run_id="r")
    refused, accepted = set[str](), set[str]()
    for at in range(2, len(await journal.read("r")) - 1):
        for steer in SENT[at % 3 :: 3]:
            asked = await cut(journal, at)
            async with Engine(asked) as engine:
                try:
                    await SENDERS[type(steer)](engine.runs, steer)
                    problem = ""
                except InterventionRefused as error:
                    problem = str(error)
                    await asked.send("r", steer)
            if not problem and isinstance(steer, Tell):
                continue
            async with Engine(asked) as engine:
                await engine.resume("r", team=make(name))
            said = [event.fact.reason for event in await asked.read("r") if isinstance(event.fact, RunRefused)]
            late = [one for one in said if one == "the run ended before it took effect"]
            if problem:
                assert said, (at, steer, problem)
                refused.add(steer.kind)
            elif not late:
                assert not said, (at, steer)
                accepted.add(steer.kind)
    assert {"edit_plan", "restore_plan", "stop_step", "add_member", "remove_member", "say", "pause_member"} == refused
    assert {"edit_plan", "add_member", "remove_member"} <= accepted


async def test_what_is_in_the_inbox_comes_first() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(make("led"), "Go.", run_id="r")
    async with Engine(await cut(journal, 4)) as engine:
        edit: Any = {"put": [{"id": "z", "agent": "new"}]}
        with pytest.raises(InterventionRefused, match="names 'new', which is not of the team"):
            await engine.runs.edit_plan("r", edit)
        await engine.runs.add_member("r", "new", SPEC)
        with pytest.raises(InterventionRefused, match="there is already a member 'new'"):
            await engine.runs.add_member("r", "new", SPEC)
        assert (await engine.runs.edit_plan("r", edit)).status == "sent"
        assert (await engine.runs.pause_member("r", "c")).status == "sent"
        with pytest.raises(InterventionRefused, match="'c' is paused already"):
            await engine.runs.pause_member("r", "c")
        with pytest.raises(InterventionRefused, match="has a limit on tokens, so there is none to raise"):
            await engine.runs.raise_budget("r", Limits(tokens=5))


async def test_no_member_works_and_no_code_is_loaded_to_answer_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "team.yaml").write_text("""
agents:
  a: {model: scripted:replies.yaml, confirm: {before: true}}
  b: {function: 'own:work'}
teams: {t: {members: [a, b], strategy: dag, dag: {steps: [{id: a}, {id: b, needs: [a]}]}}}
""")
    (tmp_path / "replies.yaml").write_text("rules: [{reply: Done.}]\n")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(load_team(tmp_path), "Go.", run_id="r")
    (tmp_path / "seen").unlink()
    monkeypatch.delitem(sys.modules, "own", raising=False)
    before = list(await journal.read("r"))
    async with Engine(journal) as engine:
        with pytest.raises(InterventionRefused, match="there is no step 'x'"):
            await engine.runs.stop_step("r", "x")
    assert list(await journal.read("r")) == before
    assert not (tmp_path / "seen").exists()


async def test_a_run_whose_team_can_not_be_rebuilt_here_is_sent_what_its_driver_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(source: object) -> object:
        raise InterventionRefused("it can't be read")

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(make("dag"), "Go.", run_id="r")
    monkeypatch.setattr("teamwright.teams.team_loader.without_code", broken)
    async with Engine(await cut(journal, 4)) as engine:
        assert (await engine.runs.edit_plan("r", {"put": [{"id": "z", "agent": "zzz"}]})).status == "sent"
        with pytest.raises(InterventionRefused, match="no plan"):
            await engine.runs.edit_plan("r", None)
