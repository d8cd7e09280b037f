"""The session of a browser: trades the code of the printed address, or a token, for a secret that its page keeps.

The page sends it as a token. It is kept in the storage of the page's own origin, which programs on other ports can't
read; there is no cookie.
"""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_READ, Reader, Server, shown_secret, stranger

router = APIRouter(prefix="/api/session", tags=["session"])


class Credential(BaseModel):
    """What a session begins with: the one-time code in the address that the server prints, or a token."""

    model_config = ConfigDict(extra="forbid")
    code: str | None = Field(default=None, max_length=200)
    token: str | None = Field(default=None, max_length=200)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.code is None) == (self.token is None):
            raise ValueError("give either a code or a token")
        return self


class KnownVisitor(BaseModel):
    """Who a visitor is."""

    name: str
    role: str


class BegunSession(KnownVisitor):
    """A session, to be sent as a token from now on."""

    session: str


@router.post("", responses=responses())
async def begin(server: Server, request: Request, given: Credential) -> BegunSession:
    """Begin a session with a code, which can be used once, or with a token, whose role the session has."""
    sessions = server.sessions
    session = sessions.trade(given.code) if given.code is not None else sessions.sign_in((given.token or "").strip())
    visitor = sessions.visitor(session) if session is not None else None
    if session is None or visitor is None:
        raise stranger(request)
    sessions.end(shown_secret(request))  # the browser forgets it now
    request.state.visitor = visitor
    return BegunSession(name=visitor.name, role=visitor.role, session=session)


@router.get("", responses=responses())
async def read(visitor: Reader) -> KnownVisitor:
    """Return who the visitor is."""
    return KnownVisitor(name=visitor.name, role=visitor.role)


@router.delete("", responses=responses(), dependencies=[MAY_READ])
async def end(server: Server, request: Request) -> dict[str, str]:
    """End the session."""
    server.sessions.end(shown_secret(request))
    return {}
