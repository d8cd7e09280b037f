"""The teams that the server may run."""

from __future__ import annotations

import anyio
from fastapi import APIRouter
from pydantic import JsonValue

from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_READ, Server
from teamwright.server.security.masked_json import masked

router = APIRouter(prefix="/api/teams", tags=["teams"])


@router.get("", responses=responses(), dependencies=[MAY_READ])
async def list_teams(server: Server) -> list[dict[str, JsonValue]]:
    """Return all teams in the folders of the server; one that can't be loaded says why."""
    return [masked(entry.to_json()) for entry in await anyio.to_thread.run_sync(server.catalogue.entries)]
