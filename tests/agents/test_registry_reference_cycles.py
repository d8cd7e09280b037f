"""Fallback cycles are refused with their path, in YAML and in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, ScriptedAgent, Team, Turn
from teamwright.agents.registry import MOST_CYCLES, MOST_FALLBACKS, MOST_NESTED, cycle_text, depths, find_cycles
from teamwright.agents.scripted import Rule
from teamwright.cli.main import main
from teamwright.errors import ManifestError, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.builder import Builder
from teamwright.teams.team_loader import load_team, source_of, team_from_source
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import Source
from tests.growth import assert_linear_calls
from tests.teams.manifests.manifests import loaded, only_problem, problems

CYCLES = {
    "agent to agent": (
        "agents: {x: {model: local, fallback: y}, y: {model: local, fallback: x}}\nteams: {t: {members: [x]}}",
        "x → y → x",
    ),
    "three agents": (
        "agents: {x: {model: local, fallback: y}, y: {model: local, fallback: z}, z: {model: local, fallback: x}}",
        "x → y → z → x",
    ),
    "agent to the team that contains it": (
        "agents: {x: {model: local, fallback: t}}\nteams: {t: {members: [x]}}",
        "x → t → x",
    ),
    "agent to a team above it": (
        "agents: {x: {model: local, fallback: s}}\nteams: {s: {members: [t]}, t: {members: [u]}, u: {members: [x]}}",
        "x → s → t → u → x",
    ),
    "agent to agent to team": (
        "agents: {x: {model: local, fallback: y}, y: {model: local, fallback: t}}\nteams: {t: {members: [x]}}",
        "x → y → t → x",
    ),
    "a team's fallback to a team that contains it": (
        "agents: {x: {model: local}}\nteams: {t: {members: [x], fallback: u}, u: {members: [t]}}",
        "t → u → t",
    ),
    "two recoveries": (
        ("agents: {x: {model: local}}\nteams: {t: {members: [x], fallback: u}, u: {members: [x], fallback: t}}"),
        "t → u → t",
    ),
    "a team's fallback and an agent's": (
        ("agents: {x: {model: local}, y: {model: local, fallback: t}}\nteams: {t: {members: [x], fallback: y}}"),
        "t → y → t",
    ),
    "through the agent that selects": (
        (
            "agents: {x: {model: local}, y: {model: local}, s: {model: local, fallback: t}}\n"
            "teams: {t: {strategy: selector, max_turns: 2, members: [x, y], selector: {agent: s}}}"
        ),
        "s → t → s",
    ),
    "through the agent that aggregates": (
        (
            "agents: {x: {model: local}, y: {model: local}, s: {model: local, fallback: t}}\n"
            "teams: {t: {strategy: fan_out, members: [x, y], fan_out: {chunks: [1, 2], answer: s}}}"
        ),
        "s → t → s",
    ),
    "through the orchestrator": (
        (
            "agents: {x: {model: local}, s: {model: local, fallback: t}}\n"
            "teams: {t: {strategy: hierarchical, members: [x], hierarchical: {lead: s}}}"
        ),
        "s → t → s",
    ),
    "through the lead": (
        (
            "agents: {x: {model: local}, y: {model: local}, s: {model: local, fallback: t}}\n"
            "teams: {t: {strategy: star_team, members: [x, y], star_team: {lead: s, steps: [{id: x}, {id: y}]}}}"
        ),
        "s → t → s",
    ),
    "a scripted one and a function": (
        "agents: {x: {function: 'm:f', fallback: y}, y: {model: scripted:s.yaml, fallback: x}}",
        "x → y → x",
    ),
}


@pytest.mark.parametrize("kind", CYCLES)
def test_a_cycle_through_fallbacks_is_refused_with_its_path(tmp_path: Path, kind: str) -> None:  # M-03
    (tmp_path / "s.yaml").write_text("rules: []")
    text, path = CYCLES[kind]
    problem = only_problem(tmp_path, text)
    owner = path.split(" → ", 1)[0]
    assert problem.message == f"The fallback of {owner!r} leads back to it: {path}"
    assert problem.line
    assert problem.suggestion


@pytest.mark.parametrize("kind", CYCLES)
def test_every_command_refuses_such_a_cycle_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:  # M-03
    (tmp_path / "s.yaml").write_text("rules: []")
    file = tmp_path / "team.yaml"
    file.write_text(CYCLES[kind][0])
    for command in (["validate"], ["run", "--team", "x"], ["show", "--team", "x"]):
        assert main([command[0], str(file), *command[1:], *(["task"] if command[0] == "run" else [])]) == 2
        assert f": {CYCLES[kind][1]} (" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "agents: {x: {model: local, fallback: y}, y: {model: local, fallback: z}, z: {model: local}}",
        "agents: {x: {model: local, fallback: t}, y: {model: local}}\nteams: {t: {members: [y]}}",
        "agents: {x: {model: local, fallback: {model: local}}}\nteams: {t: {members: [x], fallback: x}}",
        (
            "agents: {x: {model: local, fallback: z}, y: {model: local, fallback: z}, z: {model: local}}\n"
            "teams: {t: {members: [x, y]}, u: {members: [t, z], fallback: z}}"
        ),
    ],
)
def test_fallbacks_that_lead_nowhere_back_are_good(tmp_path: Path, text: str) -> None:  # M-03
    made = loaded(tmp_path, text)
    for name in (*made.manifest.agents, *made.manifest.teams):
        assert Builder(made.manifest).team(name)


def test_an_agent_that_stands_in_for_itself_is_reported_once(tmp_path: Path) -> None:  # M-03
    assert "can't be its own fallback" in only_problem(tmp_path, "agents: {x: {model: local, fallback: x}}").message
    team = "agents: {x: {model: local}}\nteams: {t: {members: [x], fallback: t}}"
    assert "can't be its own fallback" in only_problem(tmp_path, team).message


def says(name: str, **more: object) -> ScriptedAgent:
    return ScriptedAgent(name, [Rule(reply="hello", times=9)], **more)  # pyright: ignore[reportArgumentType]


def test_python_refuses_agents_that_stand_in_for_each_other() -> None:  # M-03
    x = says("x")
    x.policy = x.policy.changed(fallback=says("y", fallback=x))
    with pytest.raises(ManifestError, match="the fallback of 'x' leads back to it: x → y → x"):
        Team("t", members=[x])


def test_python_refuses_a_cycle_through_the_same_agent_on_another_model() -> None:  # M-03
    x = says("x")
    x.policy = x.policy.changed(fallback=says("x", fallback=x))
    with pytest.raises(ManifestError, match="leads back to it: x → x → x"):
        Team("t", members=[x])


def test_python_refuses_a_team_within_a_team_that_stands_in_for_a_member() -> None:  # M-03
    x = says("x")
    inner = Team("inner", members=[x])
    x.policy = x.policy.changed(fallback=inner)
    with pytest.raises(ManifestError, match="the fallback of 'x' leads back to it: x → inner → x"):
        Team("outer", members=[Team("middle", members=[inner])])


async def test_a_cycle_that_is_made_after_the_team_is_refused_when_it_runs() -> None:  # M-03
    x = says("x")
    team = Team("t", members=[x])
    x.policy = x.policy.changed(fallback=team)
    async with Engine(MemoryJournal()) as engine:
        with pytest.raises(ManifestError, match="x → t → x"):
            await engine.run(team, "task")


async def test_a_run_that_was_recorded_with_such_a_cycle_is_made_again(tmp_path: Path) -> None:  # M-03
    """Agents that stood in for each other ran in earlier versions, since only one of them was ever asked."""
    (tmp_path / "s.yaml").write_text("rules: [{reply: hello}]")
    text = "agents: {x: {model: scripted:s.yaml, fallback: y}, y: {model: scripted:s.yaml}}\nteams: {t: {members: [x]}}"
    source = source_of(loaded(tmp_path, text))
    data = source.to_json()
    data["manifest"]["agents"]["y"]["fallback"] = "x"  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript]
    team = team_from_source(Source.model_validate(data))
    async with Engine(MemoryJournal()) as engine:
        assert (await engine.run(team, "task")).output == "hello"


async def test_a_team_that_stands_in_is_not_asked_within_itself() -> None:  # M-03
    """A team that is the fallback of all members would otherwise be its own fallback without end."""

    async def broken(turn: Turn) -> str:
        raise ServiceError("down")

    at_once = RetryPolicy(times=0, backoff=0)
    a, b = (FunctionAgent(name, broken, retry=at_once) for name in "ab")
    deep = Team("deep", members=[Team("deeper", members=[b])])
    team = Team("t", members=[a], fallback=deep)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "task", run_id="r")
    assert result.status == "failed"
    asked = [event.key for event in await journal.read("r") if event.kind == "agent.asked"]
    assert asked == ["t", "t/step-1", "t/step-1#2", "t/step-1#2/step-1", "t/step-1#2/step-1/step-1"]


def test_a_chain_of_fallbacks_is_recorded_whole() -> None:  # M-03
    team = Team("t", members=[says("x", fallback=says("y", fallback=says("z")))])
    assert list(team.source.manifest.agents) == ["x", "y", "z"]


@pytest.mark.parametrize("length", [2, 100, 101, 5000])
def test_long_chains_of_fallbacks_exhaust_nothing(tmp_path: Path, length: int) -> None:  # M-03, S-01
    chain = "".join(f"  a{n}: {{model: local, fallback: a{n + 1}}}\n" for n in range(length))
    text = f"agents:\n{chain}  a{length}: {{model: local}}\n"
    if length > MOST_FALLBACKS:
        message = f"agent 'a0' has a chain of {length} fallbacks; the maximum is {MOST_FALLBACKS}"
        assert only_problem(tmp_path, text).message == message
    else:
        assert load_team(_written(tmp_path, text), team="a0")
    with pytest.raises(ManifestError, match="leads back"):
        load_team(_written(tmp_path, f"agents:\n{chain}  a{length}: {{model: local, fallback: a0}}\n"), team="a0")


@pytest.mark.parametrize("levels", [101, 5000])
def test_teams_that_are_nested_too_deeply_are_refused(tmp_path: Path, levels: int) -> None:  # M-03, S-01
    chain = "".join(f"  t{n}: {{members: [t{n + 1}]}}\n" for n in range(levels - 1))
    problem = only_problem(
        tmp_path, f"agents: {{a: {{model: local}}}}\nteams:\n{chain}  t{levels - 1}: {{members: [a]}}\n"
    )
    assert problem.message == f"team 't0' has teams nested {levels} levels deep; the maximum is {MOST_NESTED}"


def test_teams_that_are_nested_as_deep_as_they_may_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # M-03, S-01
    (tmp_path / "s.yaml").write_text("rules: [{reply: hello}]")
    chain = "".join(f"  t{n}: {{members: [t{n + 1}]}}\n" for n in range(MOST_NESTED - 1))
    deepest = f"  t{MOST_NESTED - 1}: {{members: [a]}}\n"
    file = _written(tmp_path, f"agents: {{a: {{model: scripted:s.yaml}}}}\nteams:\n{chain}{deepest}")
    for arguments in (["validate"], ["show"], ["show", "--json"], ["run", "--quiet"]):
        task = ["task"] if arguments[0] == "run" else []
        assert main([arguments[0], str(file), *task, *arguments[1:]]) == 0
    assert capsys.readouterr().out.endswith("hello\n")


def test_python_refuses_teams_that_are_nested_too_deeply() -> None:  # M-03
    team: Team = Team("t0", members=[says("a")])
    for number in range(1, MOST_NESTED):
        team = Team(f"t{number}", members=[team])
    with pytest.raises(ManifestError, match="the team 'top' has teams within it 101 levels deep; 100 are possible"):
        Team("top", members=[team])


def test_cycles_are_found_once_each_and_long_ones_are_cut() -> None:
    ways = {1: [2, 3], 2: [1], 3: [3, 4], 4: []}
    found = [cycle for cycle, _ in find_cycles(ways, lambda node: [(one, None) for one in ways[node]])]
    assert found == [[1, 2, 1], [3, 3]]
    assert cycle_text(["a", "b", "a"]) == "a → b → a"
    assert "… (80 more)" in cycle_text([str(number) for number in range(100)])


def test_all_cycles_of_a_manifest_are_reported_up_to_a_bound(tmp_path: Path) -> None:  # S-01
    teams = "".join(f"  t{i}: {{members: [t{i + 1}, t0]}}\n" for i in range(3 * MOST_CYCLES))
    found = problems(tmp_path, f"agents: {{t{3 * MOST_CYCLES}: {{model: local}}}}\nteams:\n{teams}")
    assert len(found) == MOST_CYCLES
    assert all("Teams contain each other: t" in problem.message for problem in found)


def test_finding_depths_takes_work_in_proportion_to_the_edges() -> None:  # S-01
    def ways(size: int) -> dict[str, list[str]]:
        line = {f"a{i}": ["hub", f"a{i + 1}"] for i in range(size)}
        return line | {f"a{size}": [], "hub": [f"b{i}" for i in range(size)]} | {f"b{i}": [] for i in range(size)}

    def work(graph: dict[str, list[str]]) -> None:
        assert depths(graph, lambda node: (one for one in graph[node]), lambda _: 1)["a0"] > 1

    assert_linear_calls(work, prepare=ways, size=150)


def _written(folder: Path, text: str) -> Path:
    file = folder / "team.yaml"
    file.write_text(text)
    return file
