"""Templates of experts for clients of the server, and teams that are formed from them for one task.

A client names no model and no folder of its own: a formed team works with a model that a team of this server names, in
the folder of that team. What the roles of a draft say is text, and never read as a declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from teamwright.documents.nodes import ProblemReport
from teamwright.errors import InvalidValue, ManifestError, TeamwrightError, UsageError
from teamwright.experts.formation import MOST_ROLES, FormedStrategy, TeamDraft, draft_for, draft_named, form_team
from teamwright.experts.team_or_agent import AskRequest, DraftedTeam, Router, parse_request
from teamwright.experts.templates import (
    ExpertTemplate,
    ExpertTemplates,
    RefusedFields,
    TemplateExists,
    save_template,
    templates_beside,
)
from teamwright.server.error_responses import responses
from teamwright.server.error_statuses import RefusedRequest
from teamwright.server.masked_json import masked, unmasked
from teamwright.server.routes.runs import beside
from teamwright.server.state import MAY_ADMIN, MAY_READ, MAY_RUN, Server
from teamwright.teams.team_loader import team_from_source
from teamwright.values.limits import Limits
from teamwright.values.text.validation_messages import Misfit, misfits_of, misfits_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.server.state import ServerState
    from teamwright.teams.team import Team

router = APIRouter(prefix="/api/experts", tags=["experts"])


class KnownModel(BaseModel):
    """A model of this server: one that the manifest of a team names, by default its first."""

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200, description="the id of a team of this server")
    model: str | None = Field(default=None, max_length=1000, description="a model that the team names")


class DraftRequest(KnownModel):
    """A task for which a team is to be drafted; `@team:analyst,editor` before it names the experts."""

    task: str = Field(min_length=1, max_length=1_000_000)
    by: Literal["words", "model"] = Field(
        default="words", description="choose experts by the words of the task, or ask the model, which costs a call"
    )
    limits: Limits | None = None


class FormedDraft(KnownModel):
    """The draft of a team, with the model that it works with; the first role leads unless another one is named."""

    roles: list[dict[str, JsonValue]] = Field(min_length=1, max_length=MOST_ROLES)
    lead: str | None = Field(default=None, max_length=64)
    strategy: FormedStrategy = "expert"
    how: Literal["named", "automatic"] = "named"
    notes: list[str] = Field(default=[], max_length=10)


@router.get("", responses=responses(404), dependencies=[MAY_READ])
async def list_templates(server: Server, search: str = "", team: str | None = None) -> list[dict[str, JsonValue]]:
    """Return the templates of experts, with those of a team, or those that fit some words, the best first."""
    templates = await anyio.to_thread.run_sync(_templates, server, team)
    found = templates.search(search) if search else templates.list_readable()[0]
    return [_summary(one.to_json()) for one in found]


@router.post("/drafts", responses=responses(404), dependencies=[MAY_RUN])
async def draft_team(server: Server, asked: DraftRequest) -> dict[str, JsonValue]:
    """Draft a team of experts for a task, as `teamwright ask` does; nothing is started, and only a model costs."""
    with beside("task"):
        request = parse_request(asked.task)
    with beside("model"):
        model, base = await anyio.to_thread.run_sync(server.catalogue.model, asked.team, asked.model)
    templates = await anyio.to_thread.run_sync(_templates_in, base)
    drafted = await _drafted(Router(server.engine, model, base, templates, limits=asked.limits), request, asked.by)
    roles: list[JsonValue] = [one.model_dump(mode="json", exclude_unset=True) for one in drafted.draft.roles]
    about: dict[str, JsonValue] = {"team": asked.team, "model": asked.model, "how": drafted.how}
    return masked({"roles": roles, "lead": drafted.draft.leader, "notes": list(drafted.notes), **about})


@router.get("/{name}", responses=responses(404), dependencies=[MAY_READ])
async def read_template(server: Server, name: str, team: str | None = None) -> dict[str, JsonValue]:
    """Return a template whole, with its instructions."""
    templates = await anyio.to_thread.run_sync(_templates, server, team)
    return _public(templates.get(name).to_json())


class TemplateTexts(BaseModel):
    """What a client may write of a template: texts, and nothing that runs or reads something.

    A field that is left out stays as it is, and an empty one is removed.
    """

    model_config = ConfigDict(extra="forbid")
    team: str = Field(max_length=200, description="the id of the team in whose folder the template is saved")
    description: str | None = Field(default=None, max_length=2000)
    capabilities: list[Annotated[str, Field(max_length=200)]] | None = Field(default=None, max_length=50)
    avatar: str | None = Field(default=None, max_length=64)
    color: str | None = Field(default=None, max_length=64, description="such as #0f766e")
    persona: str | None = Field(default=None, max_length=20_000)
    thinking_style: str | None = Field(default=None, max_length=20_000)
    collaboration_strategy: str | None = Field(default=None, max_length=20_000)
    instructions: str | None = Field(default=None, max_length=200_000)


class NewTemplate(TemplateTexts):
    """A template that is to be new."""

    name: str = Field(max_length=200)


@router.post("", status_code=201, responses=responses(404, 409), dependencies=[MAY_ADMIN])
async def create_expert(server: Server, given: NewTemplate) -> dict[str, JsonValue]:
    """Save a new template in the folder `experts` of a team; a name that exists, also a built-in one, is refused."""
    return _public((await anyio.to_thread.run_sync(_save, server, given.name, given, True)).to_json())


@router.put("/{name:path}", responses=responses(404), dependencies=[MAY_ADMIN])
async def save_expert(server: Server, name: str, given: TemplateTexts) -> dict[str, JsonValue]:
    """Save the texts of a template in the folder `experts` of a team; a built-in one is copied there."""
    return _public((await anyio.to_thread.run_sync(_save, server, name, given)).to_json())


def _save(server: ServerState, name: str, given: TemplateTexts, is_new: bool = False) -> ExpertTemplate:
    with beside("team"):
        folder = server.catalogue.folder(given.team)
    sent: dict[str, JsonValue] = given.model_dump(exclude_none=True, exclude={"team", "name"})
    known = _templates_in(folder).find(name, ProblemReport())
    original = {} if known is None else known.to_json()
    for field, value in sent.items():
        with beside(field):
            sent[field] = unmasked(value, original.get(field))
    try:
        return save_template(folder, name, sent, is_new=is_new)
    except TemplateExists as error:
        raise RefusedRequest(409, "template_exists", str(error), {"name": str(error)}) from error
    except RefusedFields as error:
        raise RefusedRequest(400, "usage", str(error), error.fields) from error
    except InvalidValue as error:
        raise RefusedRequest(400, "usage", str(error), {"name": str(error)}) from error
    except ManifestError as error:
        raise UsageError(server.catalogue.public_text(given.team, str(error))) from error


async def _drafted(router_: Router, request: AskRequest, by: Literal["words", "model"]) -> DraftedTeam:
    if by == "model" and not request.names:
        return await router_.draft(request)
    if request.names:
        return DraftedTeam(draft_named(request.names), "named")
    return DraftedTeam(draft_for(request.task, router_.templates), "automatic")


def formed_team(server: ServerState, given: dict[str, JsonValue], task: str) -> Team:
    """Return the team of a draft that a client sent; raises an error with what is wrong with it."""
    try:
        asked = FormedDraft.model_validate(given)
        draft = TeamDraft.model_validate({"roles": asked.roles, "lead": asked.lead})
    except ValidationError as error:
        misfits = misfits_of(error, given)
        text = f"The team can't be formed: {misfits_text(misfits)}."
        raise RefusedRequest(400, "usage", text, {"formed": text, **_beside_roles(misfits, given)}) from error
    model, base = server.catalogue.model(asked.team, asked.model)
    try:
        source = form_team(
            draft,
            _templates_in(base),
            model=model,
            base=base,
            task=task,
            how=asked.how,
            notes=asked.notes,
            strategy=asked.strategy,
        )
        return team_from_source(source, server.engine.models)
    except TeamwrightError as error:
        raise UsageError(server.catalogue.public_text(asked.team, str(error))) from error


def _beside_roles(misfits: Sequence[Misfit], given: Mapping[str, JsonValue]) -> dict[str, str]:
    """What is wrong with single roles of a draft, by the paths of their fields; of equal names the later is wrong."""
    found = {".".join(("formed", *map(str, one.at))): one.text for one in misfits if len(one.at) > 1}
    roles = given.get("roles")
    names = [role.get("name") for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []
    for index, name in enumerate(names):
        if name in names[:index]:
            found.setdefault(f"formed.roles.{index}.name", f"two roles are called {name!r}")
    return found


def experts_part(_: Journal) -> str:
    """The part of the page's operations that templates have."""
    return "experts"


def _templates(server: ServerState, team: str | None) -> ExpertTemplates:
    return ExpertTemplates() if team is None else _templates_in(server.catalogue.folder(team))


def _templates_in(folder: Path) -> ExpertTemplates:
    """The built-in templates and those of a team's folder; one with mistakes is left out of lists."""
    return templates_beside(folder, ProblemReport())


def _public(template: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A template without the path of its file."""
    return masked({name: value for name, value in template.items() if name != "file"})


def _summary(template: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in _public(template).items() if name != "instructions"}
