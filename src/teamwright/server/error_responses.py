"""Errors as clients get them: a status, a code for programs, a message for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from teamwright.errors import TeamwrightError
from teamwright.server.client_connection import ClientGone
from teamwright.server.error_statuses import INTERNAL, RefusedRequest, refusal_of
from teamwright.server.security.credentials import Role, Visitor
from teamwright.values.text.secret_patterns import mask_text
from teamwright.wings import absent_names

CLIENT_GONE = 499
"""A status for the audit alone: its client has left."""
CODES = {404: "not_found", 405: "method_not_allowed", 408: "too_slow", 413: "too_large"}


class NotKnown(Exception):
    """The request shows neither a token nor a session that is known."""


class TooManyTries(NotKnown):
    """An address has shown too many wrong tokens or codes."""


class NotAllowed(Exception):
    """The visitor may not do this."""

    def __init__(self, visitor: Visitor, role: Role) -> None:
        super().__init__(f"{visitor.name!r} has the role {visitor.role!r}, and this needs {role!r}")


class ErrorText(BaseModel):
    """What went wrong; `fields` has the messages about single fields of the body, by their paths."""

    code: str
    message: str
    fields: dict[str, str] = {}


class ErrorBody(BaseModel):
    """The body of every response that is an error."""

    error: ErrorText


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route in its OpenAPI document; every route may refuse a visitor."""
    return {status: {"model": ErrorBody} for status in (400, 401, 403, 408, 413, 421, 422, 429, 503, *statuses)}


def add_handlers(app: FastAPI) -> None:
    """Let an application answer errors in this form."""

    @app.exception_handler(TeamwrightError)
    async def _(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, TeamwrightError)
        return _refused(refusal_of(error))

    @app.exception_handler(RefusedRequest)
    async def _(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RefusedRequest)
        return _refused(error)

    @app.exception_handler(ClientGone)
    async def _(_: Request, __: Exception) -> JSONResponse:
        return error_response(CLIENT_GONE, "gone", "the client has left")

    @app.exception_handler(Exception)
    async def _(_: Request, __: Exception) -> JSONResponse:  # uvicorn logs it
        return _internal()

    @app.exception_handler(NotKnown)
    async def _(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, TooManyTries):
            limited = error_response(429, "rate_limited", "too many wrong tokens; come back in a second")
            limited.headers["Retry-After"] = "1"
            return limited
        response = error_response(401, "unauthorized", "show a token in the header Authorization")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.exception_handler(NotAllowed)
    async def _(_: Request, error: Exception) -> JSONResponse:
        return error_response(403, "forbidden", str(error))

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = [(tuple(map(str, one["loc"])), str(one["msg"])) for one in error.errors()]
        fields = {".".join(at[1:]): text for at, text in reversed(found) if at[0] == "body" and len(at) > 1}
        return error_response(422, "invalid", "; ".join(f"{'.'.join(at)}: {text}" for at, text in found), fields)

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        text = str(error.detail)
        if error.status_code in (404, 405) and (absent := absent_names()):  # GET alone matches every address
            text += f"; extras that are not installed here may serve it: {', '.join(absent)}"
        return error_response(error.status_code, CODES.get(error.status_code, "http"), text)


def _internal() -> JSONResponse:
    return error_response(*INTERNAL)


def _refused(refusal: RefusedRequest) -> JSONResponse:
    return error_response(refusal.status, refusal.code, str(refusal), refusal.fields)


def error_response(status: int, code: str, message: str, fields: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a response that is an error."""
    about = {name: mask_text(text) for name, text in (fields or {}).items()}
    return JSONResponse({"error": {"code": code, "message": mask_text(message), "fields": about}}, status)
