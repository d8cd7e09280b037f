from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teamwright import FunctionAgent, ModelAgent, Team
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import InvalidValue, UnknownName, UsageError
from teamwright.experts import ExpertProfile, ExpertTemplate, ExpertTemplates, introduce, make_expert, parse_request
from teamwright.values.specs.manifest import AgentSpec


def test_an_expert_is_a_model_agent_that_a_record_can_rebuild() -> None:
    made = make_expert("rita", "reviewer", model="local", settings={"temperature": 0.3})
    assert isinstance(made, ModelAgent)
    assert made.policy.expert is not None
    assert (made.policy.expert.template, made.settings, made.spec.expert) == (
        "reviewer",
        {"temperature": 0.3},
        made.policy.expert,
    )
    assert "## Method" in made.instructions


def test_own_settings_replace_those_of_a_template() -> None:
    template = ExpertTemplate(
        name="critic",
        profile=ExpertProfile(persona="Strict.", color="#112233"),
        agent=AgentSpec(model="local", settings={"temperature": 0.1}, description="Criticises."),
    )
    made = make_expert("c", template, profile=ExpertProfile(persona="Kind."), settings={"temperature": 0.9})
    assert isinstance(made, ModelAgent)
    assert (made.model, made.settings, made.description) == ("local", {"temperature": 0.9}, "Criticises.")
    assert made.policy.expert == ExpertProfile(template="critic", persona="Kind.", color="#112233")


def test_templates_of_ones_own_are_found_by_name() -> None:
    templates = ExpertTemplates(built_in=False)
    templates.register(ExpertTemplate(name="critic", profile=ExpertProfile(persona="Strict.")))
    assert "Strict." in make_expert("c", "critic", templates=templates, model="local").instructions
    with pytest.raises(UnknownName, match="expert template 'reviewer'"):
        make_expert("c", "reviewer", templates=templates, model="local")


def test_wrong_values_are_refused_in_our_words() -> None:
    with pytest.raises(InvalidValue, match=r"'a\.b' is no name of an expert"):
        make_expert("a.b", model="local")
    with pytest.raises(UsageError, match="'a' has no model; write  make_expert"):
        make_expert("a")
    with pytest.raises(UsageError, match="instructions of the expert 'a' are a text"):
        make_expert("a", model="local", instructions=print)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="temperature"):
        make_expert("a", model="local", settings={"temperature": 3})
    with pytest.raises(UsageError, match="expert"):
        ModelAgent("a", model="local", expert="reviewer")  # pyright: ignore[reportArgumentType]


def test_skills_become_a_tool_of_the_expert(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: pdf\ndescription: Fill forms.\n---\n", encoding="utf-8")
    made = make_expert("a", model="local", profile=ExpertProfile(skills=(str(tmp_path),)))
    (tool,) = made.spec.tools
    assert not isinstance(tool, str)
    assert list(tool.model_extra or ()) == ["skills"]


def test_introducing_experts_copies_them_and_leaves_others_alone() -> None:
    ada = make_expert("ada", "analyst", replies=[Rule(reply="x")])
    plain = FunctionAgent("bob", lambda text: "hello")
    made, same = introduce("t", [ada, plain])
    assert same is plain
    assert made is not ada
    assert isinstance(made, ScriptedAgent)
    told = "## Your team: t\n\nYou work with these members. Address them by name.\n\n- bob"
    assert made.instructions == f"{ada.instructions}\n\n{told}"
    assert Team("t", members=[made, same]).source.manifest.agents["ada"].expert == ada.policy.expert


FIVE: Any = 5
TEXT: Any = "ab"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: make_expert(FIVE), "'5' is no name of an expert"),
        (lambda: make_expert("rita", FIVE), "made from a template or its name, not from 5"),
        (lambda: make_expert("rita", profile=TEXT), "is an ExpertProfile, not 'ab'"),
        (lambda: ExpertTemplates().register(TEXT), "Only an ExpertTemplate can be registered, not 'ab'"),
        (lambda: introduce("team", TEXT), "'a' is neither a team nor an agent"),
        (lambda: parse_request(FIVE), "must be a text, and is 5"),
    ],
    ids=["name", "template", "profile", "register", "introduce", "request"],
)
def test_a_wrong_value_is_refused_in_words(make: Callable[[], object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make()
