from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teamwright import Engine
from teamwright.errors import InvalidValue
from teamwright.experts import ExpertProfile, ExpertTemplates
from teamwright.experts.formation import (
    MOST_DEMANDS,
    FormedStrategy,
    RoleDraft,
    TeamDraft,
    demands_of,
    draft_for,
    draft_named,
    form_team,
)
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.teams.team_loader import team_from_source
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.specs.manifest import Source
from tests.kit.records import cut

TEMPLATES = ExpertTemplates()


REPLIES = """\
rules:
  - match: You judge the work below
    json: {criteria: [{id: task, passed: PASSED, reason: It is so.}, {id: grounded, passed: true, reason: It is so.}]}
  - {reply: Done.}
"""


def formed(
    draft: TeamDraft, folder: Path, task: str = "", strategy: FormedStrategy = "expert", passed: str = "true"
) -> Source:
    (folder / "replies.yaml").write_text(REPLIES.replace("PASSED", passed), encoding="utf-8")
    model = f"scripted:{folder / 'replies.yaml'}"
    return form_team(draft, TEMPLATES, model=model, base=folder, task=task, strategy=strategy)


def review(source: Source) -> dict[str, Any]:
    """How the answer of a formed team is reviewed."""
    options: Any = source.manifest.teams["team"].options
    return options["evaluate"] if "evaluate" in options else options["steps"][-1]["evaluate"]


def origins(source: Source) -> dict[str, tuple[str, str | None]]:
    assert source.formation is not None
    return {role.name: (role.origin, role.template) for role in source.formation.roles}


def test_a_team_is_formed_from_named_templates_and_the_first_leads(tmp_path: Path) -> None:
    source = formed(draft_named(["analyst", "strategist", "analyst"]), tmp_path)
    assert origins(source) == {"analyst": ("template", "analyst"), "strategist": ("template", "strategist")}
    analyst = source.manifest.agents["analyst"]
    assert isinstance(analyst.expert, ExpertProfile)
    assert (analyst.expert.is_lead, analyst.expert.template) == (True, "analyst")
    assert "You lead this team. The others work first." in analyst.instructions_text
    assert analyst.instructions_text.endswith("positioning, prioritisation, planning, decisions.")
    answer = {"id": "answer", "role": "analyst", "required": True, "evaluate": review(source), "needs": ["strategist"]}
    assert source.manifest.teams["team"].options == {"steps": [{"id": "strategist", "role": "strategist"}, answer]}


def test_a_named_template_that_does_not_exist_is_made_up_with_a_warning(tmp_path: Path) -> None:
    source = formed(draft_named(["tax-lawyer", "editor"]), tmp_path)
    assert origins(source)["tax-lawyer"] == ("made_up", None)
    assert source.formation is not None
    assert source.formation.warnings == ("there is no expert template 'tax-lawyer'; the role was made up for this run",)
    lawyer = source.manifest.agents["tax-lawyer"]
    assert lawyer.description == "The tax lawyer of the team."
    assert "## What you refuse" in lawyer.instructions_text


def test_a_role_that_was_written_for_the_run_keeps_its_words(tmp_path: Path) -> None:
    role = RoleDraft(
        name="lawyer", description="Knows tax law.", persona="Dry.", instructions="Cite.", task="Check VAT {{ x }}."
    )
    source = formed(TeamDraft(roles=(RoleDraft(name="analyst", template="analyst"), role), lead="lawyer"), tmp_path)
    assert origins(source)["lawyer"] == ("written", None)
    assert source.formation is not None
    assert source.formation.warnings == ()
    text = source.manifest.agents["lawyer"].instructions_text
    assert "## Who you are\n\nDry.\n\nCite.\n\n## What you do here\n\nYou lead this team." in text
    assert "Your part of the task: Check VAT {{ x }}." in text
    assert "- lawyer (leads the team): Knows tax law." in source.manifest.agents["analyst"].instructions_text


def test_without_a_model_the_words_of_a_task_choose_templates_with_reasons() -> None:
    draft = draft_for("Review the security of our code", TEMPLATES)
    assert [role.template for role in draft.roles] == ["security_reviewer", "reviewer", "developer"]
    assert draft.roles[0].reason == "the task speaks of security"


def test_a_task_that_names_nothing_gets_the_core_roles() -> None:
    draft = draft_for("zzz", TEMPLATES)
    assert [(role.name, role.reason) for role in draft.roles] == [
        ("analyst", "a core role of every team"),
        ("reviewer", "a core role of every team"),
    ]


def test_drafts_that_contradict_themselves_are_refused() -> None:
    role = RoleDraft(name="a")
    with pytest.raises(InvalidValue, match="two roles are called 'a'"):
        TeamDraft(roles=(role, role))
    with pytest.raises(InvalidValue, match="the lead 'b' is none of the roles a"):
        TeamDraft(roles=(role,), lead="b")
    with pytest.raises(InvalidValue, match="is empty"):
        TeamDraft(roles=())
    with pytest.raises(InvalidValue, match="is no name of an expert"):
        RoleDraft(name="tax lawyer")


async def test_a_formed_team_runs_and_resumes_from_every_event_as_it_was_formed(tmp_path: Path) -> None:  # A-11 D-01
    source = formed(draft_named(["answer", "editor"]), tmp_path)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(team_from_source(source, engine.models), "go", run_id="r")
    assert (whole.status, whole.output) == ("completed", "Done.")
    assert len(whole.messages) == 2
    for at in range(1, len(await journal.read("r")), 3):
        async with Engine(await cut(journal, at)) as engine:
            again = await engine.resume("r")
            recorded = (await engine.runs.history("r")).record.source()
        assert again.output == whole.output
        assert recorded.formation == source.formation


@pytest.mark.parametrize(
    ("task", "demands"),
    [
        ("What is two and two?", []),
        ("Plan a café:\n- a menu\n- prices in euro\n\nThanks!", ["a menu", "prices in euro"]),
        ("Do (1) the walls, (2) the roof; (3) the door.", ["the walls", "the roof", "the door."]),
        ("Welche Stadt? Und wann? Vergleiche die Preise.", ["Welche Stadt?", "Und wann?"]),
        ("①市场规模 ②竞争对手", ["市场规模", "竞争对手"]),
        ("これは何ですか\uff1fいつですか\uff1f", ["これは何ですか?", "いつですか?"]),
        ("ما هذا؟ متى؟", ["ما هذا؟", "متى؟"]),
        ("\n".join(f"{number}) do {number}" for number in range(1, 20)), [f"do {number}" for number in range(1, 7)]),
    ],
)
def test_what_a_task_demands_is_read_from_its_structure(task: str, demands: list[str]) -> None:
    assert demands_of(task) == demands
    assert len(demands) <= MOST_DEMANDS


def test_the_answer_of_a_formed_team_is_reviewed_by_the_demands_of_the_task_and_not_by_its_author(
    tmp_path: Path,
) -> None:  # A-05 A-11
    source = formed(draft_named(["analyst", "writer", "editor"]), tmp_path, "Which city? And when?")
    declared = review(source)
    assert (declared["judge"], declared["revisions"], declared["threshold"]) == ("editor", 1, 0.75)
    assert [one["id"] for one in declared["criteria"]] == ["not-blank", "part-1", "part-2", "task", "grounded"]
    assert declared["criteria"][1]["judge"].endswith("Which city?")
    assert [one["id"] for one in declared["criteria"] if one.get("required")] == ["not-blank", "task"]


@pytest.mark.parametrize(
    ("names", "strategy", "judge"),
    [
        (["reviewer", "analyst"], "expert", "analyst"),
        (["analyst", "reviewer", "writer"], "expert", "reviewer"),
        (["editor"], "expert", "judge"),
        (["judge"], "expert", "judge-of-the-team"),
        (["analyst", "writer"], "collaborate", "judge"),
    ],
)
def test_the_judge_is_another_member_or_one_who_does_nothing_else(
    names: list[str], strategy: FormedStrategy, judge: str, tmp_path: Path
) -> None:  # A-05 A-11
    source = formed(draft_named(names), tmp_path, strategy=strategy)
    assert review(source)["judge"] == judge
    assert source.manifest.teams["team"].members == tuple(names)
    assert judge in source.manifest.agents


async def test_an_answer_that_does_not_pass_is_revised_once_and_counts_with_a_warning(tmp_path: Path) -> None:
    source = formed(draft_named(["analyst", "editor"]), tmp_path, passed="false")
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(team_from_source(source, engine.models), "go", run_id="r")
        events = (await engine.runs.history("r")).events
    outcomes = [event.fact.verdict.outcome for event in events if isinstance(event.fact, TeamEvaluationResult)]
    assert outcomes == ["not_reviewed", "revise", "revise"]
    assert (result.status, result.output) == ("degraded", "Done.")
    assert result.warnings == ("team: the work of 'analyst' did not pass its review in 2 rounds: task (score 0.67)",)


def test_texts_of_a_draft_and_of_the_task_refer_to_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "the value of a variable")
    written = {"name": "cook", "instructions": "Cook at ${PLACE} and $${PLACE}.", "task": "${UNSET}"}
    draft = TeamDraft.model_validate({"roles": [written, {"name": "editor", "description": "Of ${PLACE}"}]})
    source = form_team(draft, ExpertTemplates(), model="local", base=tmp_path, task="1) Go to ${PLACE}.\n2) Eat.")
    manifest, _ = resolve_secrets(source.manifest)
    shown = manifest.model_dump_json()
    assert "the value of a variable" not in shown
    for text in ("Cook at ${PLACE} and $${PLACE}.", "${UNSET}", "Of ${PLACE}", "Go to ${PLACE}"):
        assert text in shown
