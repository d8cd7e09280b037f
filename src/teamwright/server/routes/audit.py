"""What admins read: the audit lines of the server, and the attempts to call webhooks."""

from __future__ import annotations

from typing import Annotated

import anyio
from fastapi import APIRouter, Query

from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_ADMIN, Server
from teamwright.server.security.audit import AuditLine
from teamwright.server.webhook_notices import WebhookLine

router = APIRouter(tags=["audit"])


@router.get("/api/audit", responses=responses(), dependencies=[MAY_ADMIN])
async def read_audit(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[AuditLine]:
    """Return who changed what, newest first."""
    return await anyio.to_thread.run_sync(server.audit.read, limit)


@router.get("/api/webhooks", responses=responses(), dependencies=[MAY_ADMIN])
async def read_webhooks(server: Server, limit: Annotated[int, Query(ge=1, le=10_000)] = 200) -> list[WebhookLine]:
    """Return the attempts to tell a webhook of ended runs and budget warnings, newest first."""
    return await anyio.to_thread.run_sync(server.webhook_notices.log.attempts, limit)
