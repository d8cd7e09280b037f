"""Forms a team of experts for one task: from names that the user gives, from words of the task, or from a draft.

A draft says who is in the team; `form_team` turns it into a source, which a run records with the formation. A resume
rebuilds the team from that record, and forms nothing again. What the team makes is reviewed by what the task demands,
never by its author.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Self
from unicodedata import normalize

from pydantic import ConfigDict, Field, JsonValue, model_validator

from teamwright.experts.expert_agent import Colleague, expert_prompt, join_parts, team_prompt
from teamwright.experts.templates import ExpertTemplate, ExpertTemplates, words_of
from teamwright.values.names import escape_references
from teamwright.values.specs.manifest import AgentSpec, Formation, FormedRole, Manifest, RoleOrigin, Source, TeamSpec
from teamwright.values.specs.members import ExpertName, ExpertProfile
from teamwright.values.specs.models import AnyModel
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import single_line
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


ITEM = re.compile(
    r"^[ \t]*(?:[-*+•–・·◦▪‣][ \t]|\d{1,3}(?:[)、]|\.(?!\d))|[a-zA-Z][.)][ \t]|[一二三四五六七八九十]{1,3}[、.])"
    r"|\(\d{1,2}\)",
    re.MULTILINE,
)
"""Items of lists, on lines of their own or numbered within one: `- `, `2)`, `(2)`, `二、`, `②`."""
SENTENCE = re.compile("(?<=[.!?。؟।])|\n")
ASKS = ("?", "؟")
CIRCLED = {ord("①") + number: f"({number + 1})" for number in range(20)}
READ = 20_000
"""Characters of a task that are read."""
MOST_DEMANDS = 6
LONGEST_DEMAND = 300
JUDGE = "judge"
REVIEWS = "review"
"""The capability that makes a member the judge of the answer."""
PART_ID = "part-"
"""How the names of criteria begin that are parts of a task."""
PART = "Does the work do this part of the task: {}"
WHOLE = "Does the work do what its task asks, all of it, in the form, length and language that the task asks for?"
GROUNDED = "Does the work give no fact, figure or source that it neither supports nor marks as an assumption?"
THRESHOLD = 0.75
"""The least share of the criteria that has to pass, besides those that are required."""
JUDGES = """\
You judge the work of others and do none of it. Read the task and the work, and judge each criterion by what the work
says. Be exact: quote what is missing or wrong, and pass what is done."""


def plain_structure(task: str) -> str:
    """Return the beginning of a task with the punctuation and numbers of all scripts as in ASCII."""
    return normalize("NFKC", task[:READ].translate(CIRCLED))


def demands_of(task: str) -> list[str]:
    """Return what a task demands by its structure, in any language: the items of its list, or else its questions."""
    text = plain_structure(task)
    starts = list(ITEM.finditer(text))
    ends = [one.start() for one in starts[1:]]
    listed = [text[one.end() : end].partition("\n\n")[0] for one, end in zip_longest(starts, ends) if one is not None]
    asked = [one for one in SENTENCE.split(text) if one.rstrip().endswith(ASKS)]
    found = [single_line(one).rstrip(",; ") for one in (listed if len(listed) > 1 else asked)]
    demands = [cut(one, LONGEST_DEMAND) for one in dict.fromkeys(found) if one]
    return demands[:MOST_DEMANDS] if len(demands) > 1 else []


def review_by(judge: str, demands: Sequence[str] = ()) -> dict[str, JsonValue]:
    """Return the review of a formed team: its judge, and a rubric of these demands, the whole task and its grounds.

    The author revises its work once. Work that does not pass then counts with a warning that says why.
    """
    parts: list[JsonValue] = [
        {"id": f"{PART_ID}{number}", JUDGE: PART.format(one)} for number, one in enumerate(demands, start=1)
    ]
    criteria: list[JsonValue] = [
        {"id": "not-blank", "length": {"min": 1}, "required": True},
        *parts,
        {"id": "task", JUDGE: WHOLE, "required": True},
        {"id": "grounded", JUDGE: GROUNDED},
    ]
    bounds: dict[str, JsonValue] = {"threshold": THRESHOLD, "revisions": 1, "risk": "low", "on_failure": "pass"}
    return {JUDGE: judge, "criteria": criteria, **bounds}


WRITTEN = ("description", "persona", "instructions", "task", "reason")
"""The texts of a role."""


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
    task: str = "",
) -> Source:
    """Return the team of a draft with its formation, ready for a run on a task.

    With `expert`, everyone works on the task at once, then the lead answers, and another member reviews the answer.
    With `collaborate`, the lead plans steps, and a judge who does none of them reviews each. A role whose template does
    not exist is made up from its name, or from what the draft says of it, with a warning.
    """
    roles = {role.name: _role(_literal(role), templates) for role in draft.roles}
    warnings = [*notes, *(_warning(role) for role, _, origin in roles.values() if origin == "made_up")]
    everyone = [_colleague(name, template, is_lead=name == draft.leader) for name, (_, template, _) in roles.items()]
    agents = {
        name: _agent(role, template, everyone, model, is_lead=name == draft.leader)
        for name, (role, template, _) in roles.items()
    }
    options: dict[str, JsonValue]
    others = {name: template for name, (_, template, _) in roles.items() if name != draft.leader}
    judge = _judge(others) if strategy == "expert" else None
    if judge is None:
        judge = _free_name(JUDGE, agents)
        agents[judge] = AgentSpec(description="Reviews the work of the team.", instructions=JUDGES, model=model)
    if strategy == "expert":
        options = {"steps": _steps(draft, review_by(judge, [literal_text(one) for one in demands_of(task)]))}
    else:
        options = {"lead": draft.leader, "evaluate": review_by(judge)}
    team = TeamSpec(strategy=strategy, members=tuple(roles), options=options)
    formed = [_formed(role, origin) for role, _, origin in roles.values()]
    formation = Formation(how=how, roles=tuple(formed), warnings=tuple(warnings))
    manifest = Manifest(agents=agents, teams={TEAM: team})
    return Source(manifest=manifest, team=TEAM, base=str(base.resolve()), formation=formation)


def literal_text(text: str) -> str:
    """Return a text as a declaration has it in which it refers to no variable of the environment."""
    return str(escape_references(text))


def _literal(role: RoleDraft) -> RoleDraft:
    """A role whose texts, which a model or a person has written for this task, stay what they are in a declaration."""
    return role.model_copy(update={name: literal_text(getattr(role, name)) for name in WRITTEN})


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


def _judge(others: Mapping[str, ExpertTemplate]) -> str | None:
    """Return who reviews the answer of the lead: a member whose capability it is, or else the last one."""
    able = (name for name, one in others.items() if any(REVIEWS in known for known in one.agent.capabilities))
    return next(able, next(reversed(list(others)), None))


def _steps(draft: TeamDraft, review: dict[str, JsonValue]) -> list[JsonValue]:
    """The plan: everyone works on the task at once, then the lead answers it with what they found."""
    others = [role.name for role in draft.roles if role.name != draft.leader]
    steps: list[JsonValue] = [{"id": name, "role": name} for name in others]
    last: dict[str, JsonValue] = {
        "id": _free_name(ANSWER, others), "role": draft.leader, "required": True, "evaluate": review
    }  # fmt: skip
    return [*steps, {**last, "needs": list[JsonValue](others)} if others else last]


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name of the last step or of the judge, which no expert has."""
    return name if name not in taken else f"{name}-of-the-team"
