"""Forms a team of experts for one task: from names that the user gives, from words of the task, or from a draft.

A draft says who is in the team; `form_team` turns it into a source, which a run records with the formation. A resume
rebuilds the team from that record, and forms nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from teamwright.experts.expert_agent import Colleague, expert_prompt, join_parts, team_prompt
from teamwright.experts.templates import ExpertTemplate, ExpertTemplates, words_of
from teamwright.values.specs.manifest import (
    AgentSpec,
    ExpertName,
    ExpertProfile,
    Formation,
    FormedRole,
    Manifest,
    RoleOrigin,
    Source,
    TeamSpec,
)
from teamwright.values.specs.models import AnyModel
from teamwright.values.value import Value

TEAM = "team"
FormedStrategy = Literal["expert", "collaborate"]
"""How a formed team works: everyone at once and then the lead, or in phases that the lead plans."""
ANSWER = "answer"
MOST_ROLES = 8
USUAL_ROLES = 3
CORE_ROLES = ("analyst", "reviewer")
"""Who works on a task of which no word names a template: one who splits it, and one who checks the result."""
MADE_UP = """\
## Method

1. Say in a sentence what the task asks of your role, and what you leave to others.
2. Work on your part only. Name the facts you use and where they come from; mark what you assume.
3. Check your result against the task before you hand it over.

## What you deliver

Your part of the answer, complete and usable as it stands, then your assumptions and open questions in a line each.

## What you refuse

To invent facts, sources or figures, and to claim that something was done or checked that was not.

## How you disagree

Name the statement, give your reason and what would change your mind. The lead decides; after that you help."""
LEADS = """\
You lead this team. The others work first. Put their results together into one answer to the task: settle what they
disagree about and say how, leave nothing important out, and mark what nobody could answer."""


class RoleDraft(Value):
    """One expert of a team that is to be formed: a template by name, or a role that is described here.

    Fields that a model adds are ignored.
    """

    model_config = ConfigDict(extra="ignore")

    name: ExpertName
    template: ExpertName | None = None
    description: str = Field(default="", description="what the expert does, in a sentence")
    persona: str = ""
    instructions: str = Field(default="", description="how it works")
    capabilities: tuple[str, ...] = ()
    task: str = Field(default="", description="its part of the task")
    reason: str = Field(default="", description="why the team needs it")


class TeamDraft(Value):
    """The experts of a team that is to be formed; the first one leads it unless another is named."""

    model_config = ConfigDict(extra="ignore")

    roles: tuple[RoleDraft, ...] = Field(min_length=1, max_length=MOST_ROLES)
    lead: str | None = None

    @model_validator(mode="after")
    def _names_are_consistent(self) -> Self:
        names = [role.name for role in self.roles]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two roles are called {twice[0]!r}")
        if self.lead is not None and self.lead not in names:
            raise ValueError(f"the lead {self.lead!r} is none of the roles {', '.join(names)}")
        return self

    @property
    def leader(self) -> str:
        """The name of the lead."""
        return self.lead or self.roles[0].name


def draft_named(names: Sequence[str]) -> TeamDraft:
    """Return the draft of a team of these templates, each named once."""
    return TeamDraft(roles=tuple(RoleDraft(name=name, template=name) for name in dict.fromkeys(names)))


def draft_for(task: str, templates: ExpertTemplates) -> TeamDraft:
    """Return the draft of a team for a task, without a model: the templates that its words fit best."""
    words = words_of(task)
    found = templates.search(task)[:USUAL_ROLES]
    roles = [RoleDraft(name=one.name, template=one.name, reason=_matching(one, words)) for one in found]
    known = {role.name for role in roles}
    for name in CORE_ROLES:
        if len(roles) < len(CORE_ROLES) and name in templates and name not in known:
            roles.append(RoleDraft(name=name, template=name, reason="a core role of every team"))
    return TeamDraft(roles=tuple(roles))


def _matching(template: ExpertTemplate, words: Iterable[str]) -> str:
    about = words_of(" ".join((template.name, *template.agent.capabilities, template.description)))
    return f"the task speaks of {', '.join(sorted(about & set(words))[:3])}"


def form_team(
    draft: TeamDraft,
    templates: ExpertTemplates,
    *,
    model: AnyModel,
    base: Path,
    how: Literal["named", "automatic"] = "named",
    notes: Sequence[str] = (),
    strategy: FormedStrategy = "expert",
) -> Source:
    """Return the team of a draft with its formation, ready for a run.

    With `expert`, everyone works on the task at once, then the lead answers; with `collaborate`, the lead plans phases.
    A role whose template does not exist is made up from its name, or from what the draft says of it, with a warning.
    """
    roles = {role.name: _role(role, templates) for role in draft.roles}
    warnings = [*notes, *(_warning(role) for role, _, origin in roles.values() if origin == "made_up")]
    everyone = [_colleague(name, template, is_lead=name == draft.leader) for name, (_, template, _) in roles.items()]
    agents = {
        name: _agent(role, template, everyone, model, is_lead=name == draft.leader)
        for name, (role, template, _) in roles.items()
    }
    options: dict[str, JsonValue] = {"steps": _steps(draft)} if strategy == "expert" else {"lead": draft.leader}
    team = TeamSpec(strategy=strategy, members=tuple(agents), options=options)
    formed = [_formed(role, origin) for role, _, origin in roles.values()]
    formation = Formation(how=how, roles=tuple(formed), warnings=tuple(warnings))
    manifest = Manifest(agents=agents, teams={TEAM: team})
    return Source(manifest=manifest, team=TEAM, base=str(base.resolve()), formation=formation)


def _role(role: RoleDraft, templates: ExpertTemplates) -> tuple[RoleDraft, ExpertTemplate, RoleOrigin]:
    """A role with its template and where it comes from; one without is written or made up."""
    if role.template is not None and role.template in templates:
        return role, templates.get(role.template), "template"
    origin: RoleOrigin = "written" if role.template is None and role.instructions else "made_up"
    about = role.description or f"The {role.name.replace('_', ' ').replace('-', ' ')} of the team."
    agent = AgentSpec(description=about, instructions=role.instructions or MADE_UP, capabilities=role.capabilities)
    profile = ExpertProfile.model_validate({"persona": role.persona} if role.persona else {})
    return role, ExpertTemplate.model_construct(name=role.name, profile=profile, agent=agent), origin


def _formed(role: RoleDraft, origin: RoleOrigin) -> FormedRole:
    template = role.template if origin == "template" else None
    return FormedRole(name=role.name, origin=origin, template=template, reason=role.reason)


def _warning(role: RoleDraft) -> str:
    wanted = f"there is no expert template {role.template!r}" if role.template else f"no template fits {role.name!r}"
    return f"{wanted}; the role was made up for this run"


def _colleague(name: str, template: ExpertTemplate, *, is_lead: bool) -> Colleague:
    return Colleague(name, template.description, template.agent.capabilities, is_lead=is_lead)


def _agent(
    role: RoleDraft, template: ExpertTemplate, everyone: Sequence[Colleague], model: AnyModel, *, is_lead: bool
) -> AgentSpec:
    """The complete declaration of an expert."""
    fields: dict[str, object] = template.profile.model_dump(exclude_unset=True)
    if template.file or template.built_in:
        fields["template"] = template.name
    if is_lead:
        fields["is_lead"] = True
    profile = ExpertProfile.model_validate(fields)
    part = f"Your part of the task: {role.task}" if role.task else ""
    own = join_parts(LEADS if is_lead else "", part)
    text = expert_prompt(role.name, template.description, profile, template.agent.instructions_text, own)
    others = [one for one in everyone if one.name != role.name]
    whole = join_parts(text, team_prompt(TEAM, others, is_lead=is_lead))
    given = {**template.agent.model_dump(exclude_unset=True), "instructions": whole, "expert": profile}
    if template.agent.model is None:
        given["model"] = model
    return AgentSpec.model_validate(given)


def _steps(draft: TeamDraft) -> list[JsonValue]:
    """The plan: everyone works on the task at once, then the lead answers it with what they found."""
    others = [role.name for role in draft.roles if role.name != draft.leader]
    steps: list[JsonValue] = [{"id": name, "role": name} for name in others]
    last: dict[str, JsonValue] = {"id": _answer_id(others), "role": draft.leader, "required": True}
    return [*steps, {**last, "needs": list[JsonValue](others)} if others else last]


def _answer_id(taken: Sequence[str]) -> str:
    """The name of the last step, which no expert has."""
    return ANSWER if ANSWER not in taken else f"{ANSWER}-of-the-team"
