"""The audit: a line for each request that changes something, with who sent it, from where, and its outcome.

The file only grows, and only its owner can read it. It never holds texts of requests: those are in the journal.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from time import time
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teamwright.journal.location import FILE_MODE, make_folder
from teamwright.server.security.credentials import Visitor
from teamwright.server.security.request_limits import SAFE_METHODS
from teamwright.values.turns.results import iso

Line = TypeVar("Line", bound=BaseModel)

UNAUTHORIZED = 401


class JsonLines(Generic[Line]):
    """A file of lines of one type, which only grows. A line that a crash cut off is skipped."""

    def __init__(self, file: Path, line: type[Line]) -> None:
        self._file, self._line = file, line

    def write(self, line: Line) -> None:
        make_folder(self._file.parent)
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(file, line.model_dump_json().encode() + b"\n")
        finally:
            os.close(file)

    def read(self, limit: int) -> list[Line]:
        """Return the last lines, newest first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                last = deque(lines, maxlen=limit)
        except FileNotFoundError:
            return []
        found: list[Line] = []
        for text in reversed(last):
            try:
                found.append(self._line.model_validate(json.loads(text)))
            except (ValueError, ValidationError):
                continue
        return found


class AuditLine(BaseModel):
    """Who did what from where. `what` is the name of the operation, `on` what it was about.

    `on.run_id` is the run that was started, steered or read; `on.fork` the one that a fork of it started.
    """

    time: str
    by: str
    role: str
    address: str
    what: str
    on: dict[str, str]
    status: int


Audit = JsonLines[AuditLine]


class Audited:
    """Wraps an ASGI application and writes a line for each request that is not only a reading."""

    def __init__(self, app: ASGIApp, audit: Audit) -> None:
        self._app, self._audit = app, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, and write down what was done."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, sending)
        finally:
            line = _line(scope, status)
            is_reading = scope["state"].get("is_reading", False)
            # A stranger, whose tries are limited, can't fill the disk.
            if (line.by and not is_reading) or line.status == UNAUTHORIZED:
                self._audit.write(line)


def note_started(request: HTTPConnection, run_id: str) -> None:
    """Name the run that a request has started in its audit line."""
    request.state.started = run_id


def note_call(request: HTTPConnection, method: str, *, is_reading: bool) -> None:
    """Name the method that a request calls in its audit line; one that only reads has none."""
    request.state.method, request.state.is_reading = method, is_reading


def note_run(request: HTTPConnection, run_id: str) -> None:
    """Name the run that a request is about in its audit line."""
    request.state.started = run_id


def _line(scope: Scope, status: int) -> AuditLine:
    visitor = scope["state"].get("visitor")
    who = visitor if isinstance(visitor, Visitor) else None
    client = scope.get("client") or ("", 0)
    on = {name: str(value)[:200] for name, value in scope.get("path_params", {}).items()}
    if method := scope["state"].get("method"):
        on["method"] = method
    if started := scope["state"].get("started"):
        on["fork" if "run_id" in on else "run_id"] = started
    return AuditLine(
        time=iso(time()),
        by=who.name if who else "",
        role=who.role if who else "",
        address=str(client[0]),
        what=getattr(scope.get("route"), "name", "") or "unknown",
        on=on,
        status=status,
    )
