"""Experts in manifests: what a template gives, what the agent replaces, and that a run keeps both."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import ManifestError
from teamwright.experts import ExpertProfile, introduce, make_expert
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.specs.manifest import AgentSpec
from tests.kit.records import cut
from tests.teams.manifests.manifests import loaded, problems

TEAM = """\
agents:
  rita: {expert: reviewer}
  tom:
    description: Tests the parser.
    capabilities: [fuzzing]
    expert: {template: tester, persona: You are patient., is_lead: true}
    instructions: Use pytest.
  plain: {instructions: Just answer.}
teams: {review: {description: Reviews., members: [rita, tom, plain]}}
models: {primary: "scripted:replies.yaml"}
"""
REPLIES = "rules: [{reply: Done.}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "team.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    return tmp_path


def agents(folder: Path) -> dict[str, AgentSpec]:
    return loaded(folder, (folder / "team.yaml").read_text(encoding="utf-8")).manifest.agents


def test_a_name_alone_takes_everything_from_its_template(folder: Path) -> None:  # A-01 A-02
    rita = agents(folder)["rita"]
    assert isinstance(rita.expert, ExpertProfile)
    assert (rita.expert.template, rita.expert.color) == ("reviewer", "#b45309")
    assert "code review" in rita.capabilities
    assert rita.instructions_text.startswith("You are rita, an expert in a team. Your role: Reviews a change")
    for heading in ("Who you are", "How you think", "How you work with others", "Method", "What you refuse"):
        assert f"\n\n## {heading}\n\n" in rita.instructions_text


def test_what_the_agent_sets_replaces_the_template_and_its_instructions_are_added(folder: Path) -> None:
    tom = agents(folder)["tom"]
    assert (tom.description, tom.capabilities) == ("Tests the parser.", ("fuzzing",))
    assert "## Who you are\n\nYou are patient.\n\n## How you think\n\nAdversarial" in tom.instructions_text
    assert "\n\n## What you do here\n\nUse pytest.\n\n## Your team" in tom.instructions_text


def test_the_prompt_of_an_expert_names_the_others_with_role_and_capabilities(folder: Path) -> None:
    made = agents(folder)
    assert made["rita"].instructions_text.endswith(
        "## Your team: review\n\nYou work with these members. Address them by name.\n\n"
        "- tom (leads the team): Tests the parser. Good at: fuzzing.\n- plain"
    )
    assert "You lead it: what you decide holds." in made["tom"].instructions_text
    assert made["plain"].instructions == "Just answer."


def test_python_makes_the_same_experts(folder: Path) -> None:
    replies = [Rule(reply="Done.")]
    tom = make_expert(
        "tom",
        "tester",
        profile=ExpertProfile(persona="You are patient.", is_lead=True),
        replies=replies,
        description="Tests the parser.",
        capabilities=["fuzzing"],
        instructions="Use pytest.",
    )
    members = [make_expert("rita", "reviewer", replies=replies), tom, ScriptedAgent("plain", replies)]
    declared = agents(folder)
    for member in introduce("review", members)[:2]:
        assert isinstance(member, ScriptedAgent)
        assert member.instructions == declared[member.name].instructions
        assert member.policy.expert == declared[member.name].expert


async def test_a_run_resumes_with_the_experts_it_began_with_whatever_happens_to_their_templates(
    tmp_path: Path,
) -> None:  # A-02 D-01
    (tmp_path / "experts").mkdir()
    template = tmp_path / "experts" / "critic.yaml"
    template.write_text("persona: You are strict.\n", encoding="utf-8")
    (tmp_path / "team.yaml").write_text(
        "agents: {c: {model: scripted:replies.yaml, expert: critic}}\nteams: {t: {members: [c]}}\n", encoding="utf-8"
    )
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(load_team(tmp_path), "go", run_id="r")
    template.write_text("persona: You are lenient.\ncolor: nonsense\n", encoding="utf-8")
    for at in range(1, len(await journal.read("r"))):
        async with Engine(await cut(journal, at)) as engine:
            again = await engine.resume("r")
            manifest = (await engine.runs.history("r")).started.manifest
            recorded = str(await engine.journal.bodies([manifest]))
        assert again.output == whole.output
        assert "You are strict." in recorded


def test_a_template_with_a_mistake_is_reported_where_the_mistake_is(tmp_path: Path) -> None:
    (tmp_path / "experts").mkdir()
    file = tmp_path / "experts" / "critic.yaml"
    file.write_text("persona: Strict.\nmax_tokens: hot\n", encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        loaded(tmp_path, "agents: {c: {model: local, expert: critic}}\nteams: {t: {members: [c]}}\n")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(file), 2)
    assert problem.message == "template 'critic': 'max_tokens' expects a whole number, found the text 'hot'"


def test_a_template_beside_the_manifest_replaces_a_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "experts").mkdir()
    (tmp_path / "experts" / "reviewer.yaml").write_text("description: Ours.\n", encoding="utf-8")
    made = loaded(tmp_path, "agents: {c: {model: local, expert: reviewer}}\nteams: {t: {members: [c]}}\n").manifest
    assert made.agents["c"].instructions == "You are c, an expert in a team. Your role: Ours."


def test_a_team_of_experts_has_one_lead(tmp_path: Path) -> None:
    text = """\
        agents: {a: {model: local, expert: {is_lead: true}}, b: {model: local, expert: {is_lead: true}}}
        teams: {t: {members: [a, b]}, one: {members: [a]}}
    """
    (problem,) = problems(tmp_path, text)
    assert (problem.line, problem.message) == (2, "team 't' has several leads: a, b")


def test_the_model_of_a_template_is_used_unless_the_agent_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "experts").mkdir()
    (tmp_path / "experts" / "critic.yaml").write_text("model: local\nmax_tokens: 5\n", encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    text = """\
        agents: {a: {expert: critic}, b: {expert: critic, model: scripted:replies.yaml, max_tokens: 1}}
        teams: {t: {members: [a, b]}}
    """
    made = loaded(tmp_path, text).manifest.agents
    assert (made["a"].model, made["a"].max_tokens) == ("local", 5)
    assert (made["b"].model, made["b"].max_tokens) == ("scripted:replies.yaml", 1)
