"""The page: its files from the wheel, which are public, and the session of its browser, which reads `/api`.

A browser trades the code of the printed address, or a token, for a secret that its page sends as a token. It is kept in
the storage of the page's own origin, which programs on other ports can't read; there is no cookie.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Self

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from teamwright.server.error_responses import responses
from teamwright.server.state import MAY_READ, Reader, Server, shown_secret, stranger

router = APIRouter(include_in_schema=False)
session_router = APIRouter(prefix="/api/session", tags=["session"])
NOT_BUILT = """\
Teamwright's server is running, but this installation has no page: its files are built into the wheel.

In a checkout, build them with  make page.  The interface for programs is described by /api/openapi.json.
"""
HASHED = "public, max-age=31536000, immutable"


def static_folder() -> Path:
    """The folder of the page's files; it may be missing."""
    return Path(str(files("teamwright"))) / "server" / "page" / "static"


def has_page() -> bool:
    """Whether the page was built into this installation."""
    return (static_folder() / "index.html").is_file()


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


@session_router.post("", responses=responses())
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


@session_router.get("", responses=responses())
async def read(visitor: Reader) -> KnownVisitor:
    """Return who the visitor is."""
    return KnownVisitor(name=visitor.name, role=visitor.role)


@session_router.delete("", responses=responses(), dependencies=[MAY_READ])
async def end(server: Server, request: Request) -> dict[str, str]:
    """End the session."""
    server.sessions.end(shown_secret(request))
    return {}


@router.get("/{path:path}")
async def page_file(path: str) -> Response:
    """Return a file of the page, or its document for addresses that the page itself interprets."""
    if path.startswith(("api/", "v1/")):
        raise HTTPException(404, "there is no such address")
    if not has_page():
        return PlainTextResponse(NOT_BUILT, 200 if path == "" else 404)
    folder = static_folder().resolve()
    document = folder / "index.html"
    found = _file_in(folder, path)
    if found is not None and found != document:
        caching = HASHED if path.startswith("assets/") else "no-cache"
        return FileResponse(found, headers={"Cache-Control": caching})
    if "." in path.rpartition("/")[2]:
        raise HTTPException(404, "there is no such file")
    return FileResponse(document, headers={"Cache-Control": "no-cache"})


def _file_in(folder: Path, path: str) -> Path | None:
    try:
        found = (folder / path).resolve()
        return found if found.is_relative_to(folder) and found.is_file() else None
    except (OSError, ValueError):  # a name that no file can have: too long, or with a null character
        return None
