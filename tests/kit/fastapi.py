"""A stub of FastAPI, as far as a recipe needs it: routes, a lifespan and streaming responses, called without HTTP."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

Endpoint = Callable[..., Awaitable[object]]


class HTTPException(Exception):
    """An answer with a status other than success."""

    def __init__(self, status_code: int, detail: str) -> None:
        super().__init__(detail)
        self.status_code = status_code


@dataclass(frozen=True)
class StreamingResponse:
    """An answer that is sent piece by piece."""

    content: AsyncIterator[str]
    media_type: str


class FastAPI:
    """Keeps the routes of an application; `request` calls one."""

    def __init__(self, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> None:
        self.state = SimpleNamespace()
        self._lifespan = lifespan
        self._routes: list[tuple[str, re.Pattern[str], int, Endpoint]] = []

    def put(self, path: str, status_code: int = 200) -> Callable[[Endpoint], Endpoint]:
        return self._route("PUT", path, status_code)

    def get(self, path: str) -> Callable[[Endpoint], Endpoint]:
        return self._route("GET", path, 200)

    def _route(self, method: str, path: str, status_code: int) -> Callable[[Endpoint], Endpoint]:
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))

        def add(endpoint: Endpoint) -> Endpoint:
            self._routes.append((method, pattern, status_code, endpoint))
            return endpoint

        return add

    def running(self) -> AbstractAsyncContextManager[None]:
        """The time between the start and the end of the application."""
        return self._lifespan(self)

    async def request(self, method: str, path: str, **parameters: object) -> tuple[int, object]:
        """Return the status and the content of an answer; a stream is read to its end."""
        for verb, pattern, status_code, endpoint in self._routes:
            if verb == method and (found := pattern.fullmatch(path)):
                try:
                    content = await endpoint(**found.groupdict(), **parameters)
                except HTTPException as error:
                    return error.status_code, str(error)
                if isinstance(content, StreamingResponse):
                    return status_code, [piece async for piece in content.content]
                return status_code, content
        return 404, "Not Found"


def install_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import fastapi` find the stub."""
    fastapi, responses = ModuleType("fastapi"), ModuleType("fastapi.responses")
    vars(fastapi).update(FastAPI=FastAPI, HTTPException=HTTPException, Header=object, responses=responses)
    vars(responses).update(StreamingResponse=StreamingResponse)
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    monkeypatch.setitem(sys.modules, "fastapi.responses", responses)
