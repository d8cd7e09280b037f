"""Experts in Python: agents from templates and profiles who know each other by prompts, and the lead of a team."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeVar, Unpack, cast

from teamwright.agents.contract.agent import Agent, require_agent
from teamwright.agents.contract.settings import ModelKeywords
from teamwright.agents.functions.guardrails import CheckFunction
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.agents.tools.registry import ToolLike
from teamwright.errors import InvalidValue, UsageError
from teamwright.experts.skills import read_skills
from teamwright.experts.templates import ExpertTemplate, ExpertTemplates
from teamwright.strategies.protocol import Members
from teamwright.values.specs.expert import ExpertProfile, check_expert_name
from teamwright.values.specs.manifest import AnyModel, MemoryTool
from teamwright.values.specs.model_settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Colleague:
    """What one expert knows of another member of its team."""

    name: str
    description: str = ""
    capabilities: tuple[str, ...] = ()
    is_lead: bool = False

    @property
    def line(self) -> str:
        """The colleague as a line of a list."""
        about = " ".join(self.description.split())
        skilled = f" Good at: {', '.join(self.capabilities)}." if self.capabilities else ""
        lead = " (leads the team)" if self.is_lead else ""
        return f"- {self.name}{lead}" + (f": {about}" if about else "") + skilled


def expert_prompt(name: str, description: str, profile: ExpertProfile, method: str = "", own: str = "") -> str:
    """Return the instructions of an expert without its team: its role, its profile, its method, and its own."""
    about = " ".join(description.split())
    opening = f"You are {name}, an expert in a team." + (f" Your role: {about}" if about else "")
    sections = {
        "Who you are": profile.persona,
        "How you think": profile.thinking_style,
        "How you work with others": profile.collaboration_strategy,
    }
    written = [f"## {title}\n\n{text.strip()}" for title, text in sections.items() if text.strip()]
    if method.strip() and own.strip():
        own = f"## What you do here\n\n{own.strip()}"
    return join_parts(opening, *written, method, own)


def join_parts(*parts: str) -> str:
    """Join the parts of a prompt, without empty ones."""
    return "\n\n".join(text.strip() for text in parts if text.strip())


def team_prompt(team: str, colleagues: Sequence[Colleague], *, is_lead: bool = False) -> str:
    """Return what an expert knows of its team; empty if it has no colleagues."""
    if not colleagues:
        return ""
    lead = " You lead it: what you decide holds." if is_lead else ""
    listed = "\n".join(one.line for one in colleagues)
    return f"## Your team: {team}\n\nYou work with these members.{lead} Address them by name.\n\n{listed}"


A = TypeVar("A", bound=Agent)
EMPTY = ExpertTemplate.model_construct(name="")


class ExpertSettings(ModelKeywords, total=False):
    """The settings of an expert besides its profile: those of a model agent."""

    model: AnyModel
    instructions: str
    tools: Sequence[ToolLike]
    memory: str | MemoryTool | None
    check_input: CheckFunction | None
    check_output: CheckFunction | None
    temperature: float | None
    max_tokens: int | None
    settings: ModelSettings | None


def make_expert(
    name: str,
    template: str | ExpertTemplate | None = None,
    *,
    profile: ExpertProfile | None = None,
    templates: ExpertTemplates | None = None,
    replies: Script | Sequence[Rule] | None = None,
    **settings: Unpack[ExpertSettings],
) -> ModelAgent | ScriptedAgent:
    """Create an expert: a model agent, or a scripted one if `replies` are given, with the settings of either.

    A setting that is given replaces that of the template, and so do the fields of `profile`. Its `instructions` are
    added below those of the template.
    """
    _check_name(name)
    chosen = _template(name, template, templates)
    if not isinstance(profile, ExpertProfile | None):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
        raise UsageError(f"The profile of the expert {name!r} is an ExpertProfile, not {profile!r:.100}.")
    whole = _merged(chosen.profile, profile, chosen.name)
    given: dict[str, object] = {**_settings_of(chosen), **settings}
    own = given.pop("instructions", "")
    if not isinstance(own, str):
        raise UsageError(f"The instructions of the expert {name!r} are a text, not {own!r:.100}.")
    description = str(given.get("description", ""))
    given["instructions"] = expert_prompt(name, description, whole, chosen.agent.instructions_text, own)
    if whole.skills:
        given["tools"] = [*cast("Sequence[object]", given.get("tools", ())), read_skills(*whole.skills)]
    if replies is not None:
        given.pop("model", None)
        return ScriptedAgent(name, replies, expert=whole, **given)  # pyright: ignore[reportArgumentType]
    if "model" not in given:
        raise UsageError(f"The expert {name!r} has no model; write  make_expert({name!r}, …, model=…)")
    return ModelAgent(name, expert=whole, **given)  # pyright: ignore[reportArgumentType]


def introduce(team: str, members: Sequence[A]) -> list[A]:
    """Return the members of a team, in which each expert knows who the others are and what they can do.

    Experts are copied, so one may be introduced to several teams; other agents are returned as they are.
    """
    known = [_colleague(require_agent(one)) for one in members]
    return [_introduced(one, team, [other for other in known if other.name != one.name]) for one in members]


def _introduced(member: A, team: str, others: Sequence[Colleague]) -> A:
    profile = member.policy.expert
    if profile is None or not isinstance(member, ModelAgent | ScriptedAgent):
        return member
    made = copy(member)
    made.instructions = join_parts(made.instructions, team_prompt(team, others, is_lead=profile.is_lead))
    return made


def _colleague(agent: Agent) -> Colleague:
    profile = agent.policy.expert
    lead = profile is not None and profile.is_lead
    return Colleague(agent.name, agent.description, tuple(agent.capabilities), is_lead=lead)


def _check_name(name: str) -> None:
    try:
        check_expert_name(name)
    except (TypeError, ValueError) as error:
        raise InvalidValue("The expert", [str(error)]) from None


def _template(name: str, template: str | ExpertTemplate | None, templates: ExpertTemplates | None) -> ExpertTemplate:
    if isinstance(template, str):
        return (templates or ExpertTemplates()).get(template)
    if not isinstance(template, ExpertTemplate | None):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
        raise UsageError(f"The expert {name!r} is made from a template or its name, not from {template!r:.100}.")
    return EMPTY if template is None else template


def _merged(base: ExpertProfile, own: ExpertProfile | None, template: str) -> ExpertProfile:
    fields = {**base.model_dump(exclude_unset=True), **(own.model_dump(exclude_unset=True) if own else {})}
    return ExpertProfile.model_validate({**fields, "template": template} if template else fields)


def _settings_of(template: ExpertTemplate) -> dict[str, object]:
    """The settings of a template that the constructors of agents take."""
    given = {field: getattr(template.agent, field) for field in template.agent.model_fields_set}
    return {field: value for field, value in given.items() if field not in ("instructions", "expert", "simulation")}


def default_lead(members: Members) -> Agent:
    """Return the expert with `is_lead`, or else the first member."""
    for member in members:
        profile = member.policy.expert
        if profile is not None and profile.is_lead:
            return member
    return members[0]
