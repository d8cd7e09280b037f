"""Experts: agents from templates and profiles who know each other by prompts, and the lead of a team.

Python makes them with `make_expert`; `expand` turns those of a manifest into plain settings of agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, Unpack, cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import Agent, require_agent
from teamwright.agents.functions.instructions import Checks
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.agents.settings import ModelKeywords
from teamwright.agents.tools.registry import ToolLike
from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Place,
    ProblemReport,
    Scalar,
    is_nothing,
    place_at,
    plain,
    shown,
)
from teamwright.errors import InvalidValue, UsageError
from teamwright.experts.skills import read_skills
from teamwright.experts.templates import SKILLS, TEMPLATE, ExpertTemplate, ExpertTemplates, as_node, templates_beside
from teamwright.strategies.protocol import Members
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.teams.manifests.reference_checks import ANSWERERS
from teamwright.values.specs.members import EXPERT_NAME, EXPERT_NAME_FORM, ExpertProfile, check_expert_name
from teamwright.values.specs.model_settings import ModelSettings
from teamwright.values.specs.models import AnyModel
from teamwright.values.text.validation_messages import misfits_of

A = TypeVar("A", bound=Agent)
EMPTY = ExpertTemplate.model_construct(name="")
EXPERT, INSTRUCTIONS, DESCRIPTION, CAPABILITIES, TOOLS = (
    "expert", "instructions", "description", "capabilities", "tools",
)  # fmt: skip
FOR_FUNCTIONS = (DESCRIPTION, CAPABILITIES)
"""The settings of a template that a function uses."""
CHECKED_HERE = {(field,) for field in ("template", "color", "avatar")}
"""The fields of a profile that have more rules than the schema of the manifest knows."""
LIST_HINT = "see  teamwright experts"


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


class ExpertSettings(ModelKeywords, total=False):
    """The settings of an expert besides its profile: those of a model agent."""

    model: AnyModel
    instructions: str
    tools: Sequence[ToolLike]
    memory: str | None
    check: Checks | None
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


@dataclass(frozen=True, slots=True)
class Expanded:
    """An expert whose settings are complete, except for its instructions, which name its team."""

    declaration: Declaration
    profile: ExpertProfile
    method: str
    """The instructions of its template."""


def expand(declared: Declarations, report: ProblemReport) -> None:
    """Replace the declarations of experts by complete ones, and report every mistake in them."""
    known: dict[Path, ExpertTemplates] = {}
    experts: dict[str, Expanded] = {}
    for one in declared.every("agent"):
        if one.fields.has(EXPERT):
            if one.folder not in known:
                known[one.folder] = templates_beside(one.folder, report)
            made = _expand_one(one, known[one.folder], report)
            if made is not None and declared.agents.get(one.name) is one:
                experts[one.name] = made
    for name, made in experts.items():
        declared.agents[name] = made.declaration
    for name, made in experts.items():
        declared.agents[name] = _with_instructions(made, declared)
    for team in declared.every("team"):
        _check_one_lead(team, experts, report)


def _check_one_lead(team: Declaration, experts: Mapping[str, Expanded], report: ProblemReport) -> None:
    members = [name for name, _ in team.fields.texts("members")]
    leads = [name for name in members if name in experts and experts[name].profile.is_lead]
    if len(leads) > 1:
        place = team.fields.key_place("members")
        report.problem(place, f"{team.words} has several leads: {', '.join(leads)}", "set  is_lead  for one of them")


def _expand_one(agent: Declaration, templates: ExpertTemplates, report: ProblemReport) -> Expanded | None:
    """Merge an expert with its template; what the agent sets replaces what the template sets."""
    fields = agent.fields
    if not EXPERT_NAME.fullmatch(agent.name):
        report.problem(agent.place, f"{agent.words} can't be an expert of this name: {EXPERT_NAME_FORM}")
    if isinstance(fields.get(INSTRUCTIONS), Fields):
        place = fields.key_place(INSTRUCTIONS)
        report.problem(place, f"{agent.words}: the instructions of an expert are a text", "write them out")
        return None
    own = _profile_fields(fields.entries[EXPERT])
    if own is None:
        return None  # the schema of the manifest reports it
    base, settings, method = Fields({}, own.place), dict[str, Entry](), ""
    if (written := own.text(TEMPLATE)) is not None:
        found = _template_fields(str(written.value), written.place, agent, templates, report)
        if found is None:
            return None
        base, settings, method = found
    profile = _profile(Fields({**base.entries, **own.entries}, own.place), agent, report)
    if profile is None:
        return None
    if fields.has("function"):
        settings = {key: entry for key, entry in settings.items() if key in FOR_FUNCTIONS}
    given = {key: entry for key, entry in fields.entries.items() if not is_nothing(entry.node)}
    merged = Fields({**settings, **given}, fields.place)
    merged = merged.with_value(EXPERT, as_node(profile.model_dump(mode="json", exclude_unset=True), own.place))
    if profile.skills and not fields.has("function"):
        merged = _with_skills(merged, profile, own)
    return Expanded(replace(agent, node=merged), profile, method)


def _profile_fields(entry: Entry) -> Fields | None:
    """The profile as a block; a text names the template."""
    match entry.node:
        case Scalar(value=str()) as name:
            return Fields({TEMPLATE: Entry(TEMPLATE, name.place, name)}, name.place)
        case Fields() as block:
            kept = {key: one for key, one in block.entries.items() if not is_nothing(one.node)}
            return Fields(kept, entry.place)
        case _:
            return None


def _template_fields(
    name: str, place: Place, agent: Declaration, templates: ExpertTemplates, report: ProblemReport
) -> tuple[Fields, dict[str, Entry], str] | None:
    """The profile of a template, its settings without the instructions, and its instructions."""
    if name not in templates:
        hint = report.near(name, templates.names(), LIST_HINT)
        report.problem(place, f"{agent.words}: there is no expert template {shown(name)}", hint)
        return None
    template = templates.find(name, report)
    if template is None:
        return None
    at = Place(template.file)
    profile = as_node(template.profile.model_dump(mode="json", exclude_unset=True), at)
    settings = template.agent.model_dump(mode="json", exclude_unset=True, exclude={INSTRUCTIONS})
    if any(agent.fields.has(kind) for kind in ANSWERERS):
        settings = {key: value for key, value in settings.items() if key not in ANSWERERS}
    entries = dict(cast("Fields", as_node(settings, at)).entries)
    return cast("Fields", profile), entries, template.agent.instructions_text


def _profile(fields: Fields, agent: Declaration, report: ProblemReport) -> ExpertProfile | None:
    data = plain(fields)
    try:
        return ExpertProfile.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            if one.at[:1] in CHECKED_HERE:
                report.problem(place_at(fields, one.at), f"{agent.words}: {one}")
        return None


def _with_skills(fields: Fields, profile: ExpertProfile, own: Fields) -> Fields:
    """Add the tool that reads the expert's skills."""
    place = own.key_place(SKILLS)
    tool = as_node({SKILLS: {"folder": list[JsonValue](profile.skills)}}, place)
    known = fields.get(TOOLS)
    items = known.items if isinstance(known, Items) else ()
    return fields.with_value(TOOLS, Items((*items, tool), known.place if known is not None else place))


def _with_instructions(made: Expanded, declared: Declarations) -> Declaration:
    """The expert with the whole text of its instructions; a function reads none."""
    agent, fields = made.declaration, made.declaration.fields
    if fields.has("function"):
        return agent
    teams = [text for team in declared.teams.values() if (text := _team_text(team, made, declared))]
    own = fields.text(INSTRUCTIONS)
    added = str(own.value) if own else ""
    text = expert_prompt(agent.name, _text(fields, DESCRIPTION), made.profile, made.method, added)
    place = own.place if own else agent.place
    return replace(agent, node=fields.with_value(INSTRUCTIONS, Scalar(join_parts(text, *teams), place)))


def _team_text(team: Declaration, made: Expanded, declared: Declarations) -> str:
    """What an expert knows of a team; empty outside of it."""
    members = [name for name, _ in team.fields.texts("members")]
    if made.declaration.name not in members:
        return ""
    others = [_declared_colleague(name, declared) for name in members if name != made.declaration.name]
    return team_prompt(team.name, others, is_lead=made.profile.is_lead)


def _declared_colleague(name: str, declared: Declarations) -> Colleague:
    found = declared.agents.get(name) or declared.teams.get(name)
    if found is None:
        return Colleague(name)
    fields = found.fields
    lead = fields.get(EXPERT, "is_lead")
    return Colleague(
        name,
        _text(fields, DESCRIPTION),
        tuple(text for text, _ in fields.texts(CAPABILITIES)),
        is_lead=isinstance(lead, Scalar) and lead.value is True,
    )


def _text(fields: Fields, key: str) -> str:
    found = fields.text(key)
    return "" if found is None else str(found.value)
