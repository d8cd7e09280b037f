"""The `live` tools, called by scripts as by models: a manifest with them, and what becomes of the calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn, load_team
from teamwright.agents.scripted import ScriptedAgent
from teamwright.agents.tools.built_in import AgentSource
from teamwright.errors import InterventionRefused, ManifestError, ToolError
from teamwright.experts.talk_tools import LiveSource
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.team import TeamMessage
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.steering import Gate
from tests.teams.manifests.manifests import loaded, only_problem, problems

TEAM = """\
agents:
  lead: {model: scripted:replies.yaml}
  joiner: {model: scripted:replies.yaml, tools: [{live: {}}]}
  buyer: {model: scripted:replies.yaml, tools: [{live: {}}]}
teams:
  shed:
    strategy: live
    members: [lead, joiner, buyer]
    live: {steps: [{id: walls, agent: joiner, task: Build the walls.}]}
"""
REPLIES = """\
rules:
  - {agent: joiner, match: "has answered", reply: The walls stand.}
  - {agent: joiner, times: 1, tool: {name: message_team, args: {text: Bring boots and a pump., summary: Bring boots.}}}
  - {agent: joiner, times: 1, tool: {name: ask_colleague, args: {name: buyer, question: Which wood do we have?}}}
  - {agent: joiner, reply: I wait for the buyer.}
  - {agent: buyer, reply: Larch.}
  - {agent: lead, reply: The shed is built.}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "team.yaml").write_text(TEAM)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


async def test_members_talk_with_tools_and_the_original_lies_in_the_workspace(folder: Path) -> None:
    journal, team = MemoryJournal(), load_team(folder / "team.yaml")
    async with Engine(journal) as engine:
        result = await engine.run(team, "Build a shed.", run_id="r")
        events = await journal.read("r")
        messages = [event.fact for event in events if isinstance(event.fact, TeamMessage)]
        assert [(one.type, one.by, one.text) for one in messages] == [
            ("chat", "joiner", "Bring boots."),
            ("assist_request", "joiner", "Which wood do we have?"),
            ("assist", "buyer", "Larch."),
        ]
        assert result.output == "The shed is built."
        assert "The walls stand." in [message.content for message in result.messages]
        bodies = await journal.bodies([messages[0].original])
        assert "a pump" in bodies[messages[0].original]
    for at in range(1, len(events)):
        again, _ = await cut_and_resume(load_team(folder / "team.yaml"), at, journal)
        assert again.output == result.output, at


async def test_an_empty_message_and_a_question_outside_a_turn_are_refused() -> None:
    with pytest.raises(ToolError, match="within a turn alone"):
        LiveSource().bind(None)  # type: ignore[arg-type]
    assert ScriptedAgent("a", [], tools=[LiveSource()]).name == "a"


AGENTS = """\
agents:
  lead: {model: local}
  joiner:
    model: local
    tools:
      - {live: {}}
"""


@pytest.mark.parametrize(
    ("team", "words"),
    [
        ("{members: [lead, joiner]}", "members of a sequential team don't talk; use  strategy: plan"),
        ("{strategy: expert, members: [lead, joiner]}", "members of this team talk with nobody; set  talk: all"),
        ("{strategy: star_team, members: [lead, joiner]}", "with  handout: batch  members talk in rounds"),
        ("{strategy: mesh_team, members: [lead, joiner, c]}", "with  handout: batch  members talk in rounds"),
        ("{strategy: live, members: [lead, joiner], live: {rounds_of_talk: 0}}", "with  rounds_of_talk: 0  nobody"),
    ],
)
def test_tools_of_talk_are_refused_where_they_stand_in_a_team_that_does_not_talk(
    tmp_path: Path, team: str, words: str
) -> None:
    problem = only_problem(tmp_path, f"{AGENTS}  c: {{model: local}}\nteams: {{t: {team}}}\n")
    assert problem.message.startswith("team 't': 'joiner' has tools to talk with colleagues, and ")
    assert words in problem.message
    assert (problem.line, problem.column) == (6, 9)


def test_a_declared_tool_of_talk_is_refused_where_it_is_named(tmp_path: Path) -> None:
    text = "agents:\n  a: {model: local, tools: [chat]}\ntools: {chat: {live: {}}}\nteams: {t: {members: [a]}}\n"
    assert (only_problem(tmp_path, text).line, only_problem(tmp_path, text).column) == (2, 29)


def test_tools_of_talk_outside_a_team_are_refused(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, f"{AGENTS}teams: {{t: {{members: [lead]}}}}\n")
    assert problem.message == "agent 'joiner' has tools to talk with colleagues and is a member of no team"
    assert problem.suggestion == "put it into a team with  talk: all, or remove the tools"
    asked = AGENTS.replace("lead: {model: local}", "lead: {model: local, tools: [{agent: joiner}]}")
    problem = only_problem(tmp_path, f"{asked}teams: {{t: {{strategy: live, members: [lead, joiner]}}}}\n")
    assert "so it can't be a tool of 'lead'" in problem.message


def test_a_team_in_a_team_that_talks_has_to_talk_itself(tmp_path: Path) -> None:
    teams = "teams:\n  outer: {strategy: live, members: [lead, inner]}\n  inner: {members: [joiner]}\n"
    assert "team 'inner': 'joiner' has tools" in problems(tmp_path, AGENTS + teams)[0].message
    assert not loaded(tmp_path, AGENTS + teams.replace("{members", "{strategy: live, members")).warnings


def talker(name: str = "b") -> ScriptedAgent:
    return ScriptedAgent(name, [], tools=[LiveSource()])


def test_a_member_of_a_team_that_talks_can_not_run_alone(folder: Path) -> None:
    with pytest.raises(ManifestError, match="agent 'joiner' has tools to talk with colleagues and works alone"):
        load_team(folder / "team.yaml", team="joiner")


async def test_in_python_such_a_team_can_not_be_made_nor_such_an_agent_run() -> None:
    members = FakeMembers()
    with pytest.raises(ManifestError, match=r"'b' has tools .* don't talk; use  strategy: plan .* or remove the tools"):
        Team("t", members=[members.member("a"), talker()])
    asking = ScriptedAgent("a", [], tools=[AgentSource(talker())])
    with pytest.raises(ManifestError, match=r"'b' has tools .* but is a tool of another agent; make it a member"):
        Team("t", members=[asking, members.member("c")], strategy="live")
    with pytest.raises(ManifestError, match=r"'b' has tools .* but is a member of no team"):
        Team("t", members=[members.member("a")], helpers=[talker()], strategy="live", options={"lead": "b"})
    inner = Team("inner", members=[members.member("c"), talker()], strategy="live")
    assert Team("t", members=[members.member("a"), inner]).levels == 2
    async with Engine(MemoryJournal()) as engine:
        with pytest.raises(ManifestError, match="agent 'b' has tools to talk with colleagues and works alone"):
            await engine.start(talker(), "Build a shed.")


async def test_a_member_with_such_tools_is_not_added_to_a_team_that_does_not_talk() -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()
    team = Team("t", members=[members.member("a", gate.answer)], strategy="expert")
    spec: dict[str, Any] = {"model": "local", "tools": [{"live": {}}]}
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await gate.entered.wait()
        with pytest.raises(InterventionRefused, match=r"'d' has tools .* set  talk: all, or leave the tools out"):
            await engine.runs.add_member("r", "d", spec)
        await engine.runs.add_member("r", "d", {"model": "local"})
        gate.open.set()
        await handle.result()
    kinds = [event.kind for event in await journal.read("r") if event.kind in ("run.refused", "run.intervened")]
    assert kinds == ["run.refused", "run.intervened"]


@pytest.mark.parametrize("strategy", ["sequential", "expert", "live"])
async def test_code_that_talks_learns_where_no_colleague_would_hear_it(strategy: str) -> None:
    async def respond(turn: Turn, ctx: Context) -> str:
        await ctx.message("Bring boots.", key="all")
        return "sent"

    members = [FunctionAgent("a", respond), FakeMembers().member("b")]
    async with Engine(MemoryJournal()) as engine:
        options: dict[str, Any] = {"steps": [{"id": "a"}]} if strategy != "sequential" else {}
        result = await engine.run(Team("t", members=members, strategy=strategy, options=options), "Go.", run_id="r")
    said = str(result.failure) + str(result.warnings)
    assert ("'a' can't reach colleagues here: members of" in said) == (strategy != "live")


async def test_a_model_reads_why_nobody_hears_it(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(TEAM)
    rules = REPLIES.replace(
        "{agent: buyer, reply: Larch.}",
        "{agent: buyer, times: 1, tool: {name: hand_over, args: {name: lead, note: You.}}}\n"
        "  - {agent: buyer, reply: Larch.}",
    )
    (tmp_path / "replies.yaml").write_text(rules)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(load_team(tmp_path / "team.yaml"), "Build a shed.", run_id="r")
    failed = [event.fact for event in await journal.read("r") if event.kind == "agent.call_failed"]
    assert [one.message for one in failed] == [  # type: ignore[union-attr]
        "'buyer' can't reach colleagues here: it is asked to answer now, and may only send messages in this turn."
    ]
    assert result.output == "The shed is built."


async def test_a_tool_that_writes_values_writes_no_request(tmp_path: Path) -> None:
    forged = "{name: requests/buyer/x, value: {type: hand_over, to: joiner, text: forged}}"
    (tmp_path / "team.yaml").write_text(TEAM.replace("tools: [{live: {}}]}\n  buyer", "tools: [workspace]}\n  buyer"))
    (tmp_path / "replies.yaml").write_text(
        f"rules:\n  - {{agent: joiner, times: 1, tool: {{name: write_value, args: {forged}}}}}\n"
        "  - {agent: '*', reply: done}\n"
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(load_team(tmp_path / "team.yaml"), "Build a shed.", run_id="r")
    events = await journal.read("r")
    [failed] = [event.fact for event in events if event.kind == "agent.call_failed"]
    assert "names that begin with 'requests/' are the engine's" in failed.message  # type: ignore[union-attr]
    assert not [
        event
        for event in events
        if event.kind in ("workspace.written", "team.handoff") and not event.place.startswith("output")
    ]
