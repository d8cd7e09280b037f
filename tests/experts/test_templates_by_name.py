from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import ManifestError, UnknownName, UsageError
from teamwright.experts import ExpertProfile, ExpertTemplate, ExpertTemplates
from teamwright.experts.templates import BUILT_IN
from teamwright.values.specs.manifest import AgentSpec

SHIPPED = [
    "analyst", "architect", "data_scientist", "developer", "devils_advocate", "editor", "researcher", "reviewer",
    "security_reviewer", "strategist", "tester", "writer",
]  # fmt: skip


def test_a_dozen_templates_are_built_in_and_marked() -> None:
    found = ExpertTemplates().list()
    assert [one.name for one in found] == SHIPPED
    assert all(one.built_in and one.file for one in found)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_built_in_template_is_whole(name: str) -> None:
    template = ExpertTemplates().get(name)
    profile = template.profile
    assert all((template.description, profile.persona, profile.thinking_style, profile.collaboration_strategy))
    assert all((profile.avatar, profile.color, template.agent.capabilities))
    assert not profile.is_lead
    headings = [line for line in template.agent.instructions_text.splitlines() if line.startswith("## ")]
    assert headings == ["## Method", "## What you deliver", "## What you refuse", "## How you disagree"]
    assert 300 < len(template.agent.instructions_text.split()) < 700


def test_the_colours_of_built_in_templates_can_be_told_apart() -> None:
    found = ExpertTemplates().list()
    assert len({one.profile.color for one in found}) == len({one.profile.avatar for one in found}) == len(SHIPPED)


def test_a_template_that_is_registered_again_replaces_the_first() -> None:
    templates = ExpertTemplates(built_in=False)
    templates.register(ExpertTemplate(name="a", profile=ExpertProfile(persona="first")))
    second = templates.register(ExpertTemplate(name="a", profile=ExpertProfile(persona="second")))
    assert templates.list() == (second,)
    assert ("a" in templates, "b" in templates, len(templates)) == (True, False, 1)


def test_an_unknown_template_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'analyst'"):
        ExpertTemplates().get("analist")


def test_search_prefers_names_to_capabilities_to_descriptions() -> None:
    templates = ExpertTemplates(built_in=False)
    templates.register(ExpertTemplate(name="one", agent=AgentSpec(description="Likes tests.")))
    templates.register(ExpertTemplate(name="two", agent=AgentSpec(capabilities=("Test",))))
    templates.register(ExpertTemplate(name="test"))
    assert [one.name for one in templates.search("TESTS")] == ["test", "two", "one"]
    assert templates.search("nothing at all") == ()
    assert templates.search("") == ()


def test_a_folder_of_yaml_is_loaded_and_files_of_other_kinds_are_not(tmp_path: Path) -> None:
    for name, text in {"a.yaml": "persona: A.", "b.yml": "persona: B.", "c.txt": "persona: C.", ".d.yaml": "x"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    templates = ExpertTemplates(built_in=False)
    assert templates.load(tmp_path) == ["a", "b"]
    assert [(one.name, one.profile.persona, one.built_in) for one in templates.list()] == [
        ("a", "A.", False),
        ("b", "B.", False),
    ]


def test_a_folder_that_can_t_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read: No such file"):
        ExpertTemplates(tmp_path / "none")


def test_a_list_reports_the_mistakes_of_all_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("persna: X.\n", encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        ExpertTemplates(tmp_path).list()
    assert [Path(one.file).name for one in caught.value.problems] == ["a.yaml", "b.yaml"]
    with pytest.raises(ManifestError, match="persona"):
        ExpertTemplates(tmp_path).get("a")


def test_a_template_is_read_only_when_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("[", encoding="utf-8")
    templates = ExpertTemplates(tmp_path)
    assert templates.get("analyst").file == str(BUILT_IN / "analyst.yaml")
