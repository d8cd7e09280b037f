"""Errors as clients get them: a status, a code for programs, a message for people; and requests that end early.

A request ends early where there is no such run, or where the client closes its connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from teamwright.errors import RunNotFound, TeamwrightError, UsageError
from teamwright.server.credentials import Role, Visitor
from teamwright.server.error_statuses import INTERNAL, RefusedRequest, refusal_of
from teamwright.values.text.secrets import mask_text
from teamwright.values.text.validation_messages import misfit_text, misfits_among
from teamwright.wings import absent_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunSummary


CLIENT_GONE = 499
"""A status for the audit alone: its client has left."""
OPENAI = "/v1/"
"""Where the formats of OpenAI are, whose clients read more of an error."""
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
    """What went wrong; `fields` has the messages about single fields of the body, by their paths.

    Below `/v1` there is also what clients of OpenAI's formats expect: the `type` of the error, and its first field.
    """

    code: str
    message: str
    fields: dict[str, str] = {}
    type: str | None = None
    param: str | None = None


class ErrorBody(BaseModel):
    """The body of every response that is an error."""

    error: ErrorText


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route in its OpenAPI document; every route may refuse a visitor."""
    return {status: {"model": ErrorBody} for status in (400, 401, 403, 408, 413, 421, 422, 429, 503, *statuses)}


def add_handlers(app: FastAPI) -> None:
    """Let an application answer errors in this form."""

    @app.exception_handler(TeamwrightError)
    async def _(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, TeamwrightError)
        return _refused(request, refusal_of(error))

    @app.exception_handler(RefusedRequest)
    async def _(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RefusedRequest)
        return _refused(request, error)

    @app.exception_handler(ClientGone)
    async def _(_: Request, __: Exception) -> JSONResponse:
        return error_response(CLIENT_GONE, "gone", "the client has left")

    @app.exception_handler(Exception)
    async def _(request: Request, __: Exception) -> JSONResponse:  # uvicorn logs it
        return error_response(*INTERNAL, path=request.url.path)

    @app.exception_handler(NotKnown)
    async def _(request: Request, error: Exception) -> JSONResponse:
        path = request.url.path
        if isinstance(error, TooManyTries):
            limited = error_response(429, "rate_limited", "too many wrong tokens; come back in a second", path=path)
            limited.headers["Retry-After"] = "1"
            return limited
        response = error_response(401, "unauthorized", "show a token in the header Authorization", path=path)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.exception_handler(NotAllowed)
    async def _(request: Request, error: Exception) -> JSONResponse:
        return error_response(403, "forbidden", str(error), path=request.url.path)

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _invalid(request, error)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        text = str(error.detail)
        if error.status_code in (404, 405) and (absent := absent_names()):  # GET alone matches every address
            text += f"; extras that are not installed here may serve it: {', '.join(absent)}"
        return error_response(error.status_code, CODES.get(error.status_code, "http"), text, path=request.url.path)


def _refused(request: Request, refusal: RefusedRequest) -> JSONResponse:
    return error_response(refusal.status, refusal.code, str(refusal), refusal.fields, path=request.url.path)


def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Return what is wrong with a request: in its body, by the paths of fields, or in its address and headers."""
    errors = cast("Sequence[ErrorDetails]", error.errors())
    of_body = [{**one, "loc": one["loc"][1:]} for one in errors if one["loc"][0] == "body"]
    found = misfits_among(cast("list[ErrorDetails]", of_body), error.body)
    fields = {".".join(map(str, one.at)): one.text for one in reversed(found) if one.at}
    texts = [f"{one}" if one.at else f"the body {one}" for one in found]
    texts += [f"{'.'.join(map(str, one['loc']))}: {misfit_text(one)}" for one in errors if one["loc"][0] != "body"]
    return error_response(422, "invalid", "; ".join(texts), fields, path=request.url.path)


def error_response(
    status: int, code: str, message: str, fields: Mapping[str, str] | None = None, *, path: str = ""
) -> JSONResponse:
    """Return a response that is an error, for a request to `path`."""
    about = {name: mask_text(text) for name, text in (fields or {}).items()}
    error = {"code": code, "message": mask_text(message), "fields": about}
    if path.startswith(OPENAI):
        error |= {"type": openai_type(status), "param": next(iter(about), None)}
    return JSONResponse({"error": error}, status)


def openai_type(status: int) -> str:
    """Return what OpenAI's formats call an error with this status."""
    known = {404: "not_found", 429: "too_many_requests"}
    return known.get(status, "invalid_request_error" if status < 500 else "server_error")


T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before it had its answer."""


async def require_run(engine: Engine, run_id: str) -> RunSummary:
    """Return the summary of a run; raises `RunNotFound`."""
    try:
        found = await engine.runs.find(run_id)
    except UsageError as error:
        raise RunNotFound(run_id) from error
    if found is None:
        raise RunNotFound(run_id)
    return found


async def while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of some work; it is cancelled, and `ClientGone` raised, when the client leaves.

    The body of the request has to be read before.
    """
    outcome: list[T] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        async def leave_with_client() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave_with_client)
        try:
            outcome.append(await work())
        except Exception as error:  # noqa: BLE001 - it is raised outside of the group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not outcome:
        raise ClientGone
    return outcome[0]
