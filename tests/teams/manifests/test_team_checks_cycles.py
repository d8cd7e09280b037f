"""Agents as tools in a manifest: declared inline or by name, built, recorded, and checked at load."""

from pathlib import Path

from teamwright.agents.scripted import ScriptedAgent
from teamwright.runtime.engine import Engine
from teamwright.teams.team_loader import load_team
from tests.teams.manifests.manifests import loaded, only_problem

REPLIES = """\
- {agent: writer, match: '# tool (ask_desk|researcher)', reply: written}
- {agent: writer, tool: {name: ask_desk, args: {task: find}}, times: 1}
- {agent: '*', reply: found}
"""
MANIFEST = """\
agents:
  writer:
    model: scripted:replies.yaml
    tools: [desk-tool, {agent: researcher, description: Finds facts.}]
  researcher: {model: scripted:replies.yaml}
  other: {model: scripted:replies.yaml}
teams:
  desk: {members: [other]}
tools:
  desk-tool: {agent: desk, name: ask_desk}
"""


def write(folder: Path, text: str = MANIFEST) -> Path:
    (folder / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    (folder / "team.yaml").write_text(text, encoding="utf-8")
    return folder / "team.yaml"


async def test_a_manifest_declares_agents_and_teams_as_tools(tmp_path: Path) -> None:  # L-D-1
    team = load_team(write(tmp_path), team="writer")
    (writer,) = team.members
    assert isinstance(writer, ScriptedAgent)
    assert [one.name for one in writer.tool_agents] == ["desk", "researcher"]
    assert [one.name for one in team.everyone()] == ["writer", "writer", "desk", "other", "researcher"]
    async with Engine(tmp_path / "runs.db") as engine:
        result = await engine.run(team, "go", run_id="r")
        assert result.output == "written"
    async with Engine(tmp_path / "runs.db") as engine:  # the team is rebuilt from the record
        fork = await engine.fork("r", at=1, new_id="f")
    assert fork.output == "written"


def test_a_team_that_is_a_tool_is_not_the_one_to_run(tmp_path: Path) -> None:
    text = MANIFEST.replace("teams:\n", "teams:\n  main: {members: [writer]}\n")
    assert load_team(write(tmp_path, text)).name == "main"


def test_an_unknown_agent_gets_the_nearest_name(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {a: {model: local, tools: [{agent: writr}]}, writer: {model: local}}")
    assert problem.message == "agent 'a': there is no agent or team 'writr'"
    assert "did you mean 'writer'?" in problem.suggestion
    assert (problem.line, problem.column) == (1, 44)


def test_an_unknown_agent_of_a_declared_tool_is_reported_there(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {a: {model: local}}\ntools: {t: {agent: b}}")
    assert problem.message == "tool 't': there is no agent or team 'b'"
    assert problem.line == 2


def test_tools_that_lead_back_are_reported_with_the_path(tmp_path: Path) -> None:  # L-D-9
    agents = "agents: {a: {model: local, tools: [{agent: t}]}, b: {model: local, tools: [c]}}\n"
    problem = only_problem(tmp_path, agents + "teams: {t: {members: [b]}}\ntools: {c: {agent: a}}")
    assert problem.message == "The tool 'a' of 'b' leads back to it: b → a → t → b"
    assert (problem.line, problem.column) == (1, 76)


def test_an_agent_can_not_be_a_tool_of_itself(tmp_path: Path) -> None:  # L-D-9
    problem = only_problem(tmp_path, "agents: {a: {model: local, tools: [{agent: a}]}}")
    assert problem.message == "The tool 'a' of 'a' leads back to it: a → a"


def test_a_wrong_field_of_an_agent_tool_is_reported(tmp_path: Path) -> None:
    problem = only_problem(
        tmp_path, "agents: {a: {model: local, tools: [{agent: b, descripton: x}]}, b: {model: local}}"
    )
    assert "'descripton' is not a field here" in problem.message
    assert problem.suggestion == "did you mean 'description'?"


def test_approvals_know_the_name_of_an_agent_tool(tmp_path: Path) -> None:
    text = "agents: {a: {model: local, tools: [{agent: b.c}], confirm: {tools: [NAME]}}, b.c: {model: local}}"
    assert loaded(tmp_path, text.replace("NAME", "b_c"))
    assert "has no tool 'b_d' to approve" in only_problem(tmp_path, text.replace("NAME", "b_d")).message


def test_agents_as_tools_may_not_nest_without_end(tmp_path: Path) -> None:
    chain = "".join(f"  a{n}: {{model: local, tools: [{{agent: a{n + 1}}}]}}\n" for n in range(150))
    problem = only_problem(tmp_path, f"agents:\n{chain}  a150: {{model: local}}\n")
    assert "has agents as tools 150 levels deep; the maximum is 100" in problem.message
