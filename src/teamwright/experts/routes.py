"""Templates of experts for clients of the server."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import JsonValue

from teamwright.experts.templates import ExpertTemplates
from teamwright.server.error_responses import responses
from teamwright.server.security.visitor import MAY_READ

router = APIRouter(prefix="/api/experts", tags=["experts"])


@router.get("", responses=responses(404), dependencies=[MAY_READ])
async def list_templates(search: str = "") -> list[dict[str, JsonValue]]:
    """Return the templates of experts, or those that fit some words, the best first."""
    templates = ExpertTemplates()
    found = templates.search(search) if search else templates.list_readable()[0]
    return [_summary(one.to_json()) for one in found]


@router.get("/{name}", responses=responses(404), dependencies=[MAY_READ])
async def read_template(name: str) -> dict[str, JsonValue]:
    """Return a template whole, with its instructions."""
    return _public(ExpertTemplates().get(name).to_json())


def _public(template: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A template without the path of its file."""
    return {name: value for name, value in template.items() if name != "file"}


def _summary(template: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in _public(template).items() if name != "instructions"}
