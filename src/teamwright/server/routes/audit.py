"""The audit lines of the server, for admins."""

from __future__ import annotations

from typing import Annotated

import anyio
from fastapi import APIRouter, Query

from teamwright.server.access import MAY_ADMIN, Server
from teamwright.server.audit import AuditLine
from teamwright.server.errors import responses

router = APIRouter(prefix="/api/audit", tags=["audit"])


@router.get("", responses=responses(), dependencies=[MAY_ADMIN])
async def read_audit(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[AuditLine]:
    """Return who changed what, newest first."""
    return await anyio.to_thread.run_sync(server.audit.read, limit)
