from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.errors import InvalidValue
from teamwright.experts import ExpertProfile, ExpertTemplates
from teamwright.experts.formation import RoleDraft, TeamDraft, draft_for, draft_named, form_team
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team_loader import team_from_source
from teamwright.values.specs.manifest import Source
from tests.kit.records import cut

TEMPLATES = ExpertTemplates()


def formed(draft: TeamDraft, folder: Path) -> Source:
    (folder / "replies.yaml").write_text("rules: [{reply: Done.}]\n", encoding="utf-8")
    return form_team(draft, TEMPLATES, model=f"scripted:{folder / 'replies.yaml'}", base=folder)


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
    assert source.manifest.teams["team"].options == {
        "steps": [
            {"id": "strategist", "role": "strategist"},
            {"id": "answer", "role": "analyst", "required": True, "needs": ["strategist"]},
        ]
    }


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
    for at in range(1, len(await journal.read("r")), 3):
        async with Engine(await cut(journal, at)) as engine:
            again = await engine.resume("r")
            recorded = (await engine.runs.history("r")).record.source()
        assert again.output == whole.output
        assert recorded.formation == source.formation
