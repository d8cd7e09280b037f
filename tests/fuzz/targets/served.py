"""A server of ours for the fuzz targets of its doors: it is opened once, and each target sends requests to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

from teamwright import Engine
from teamwright.journal import MemoryJournal
from teamwright.server.app import make_app
from teamwright.server.credentials import Role
from teamwright.server.guard import RateLimit
from teamwright.server.state import ServerState, open_state
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.targets.protocol import CORPUS, check_size, check_words
from tests.kit.server import NO_CERTIFICATES
from tests.kit.terminal import write_team

ONE = "agents: {a: {model: scripted:replies.yaml}}\nteams: {one: {members: [a]}}\n"
REPLIES = "rules:\n  - {agent: a, reply: done}\n"
ROLES: tuple[Role, ...] = ("read", "answer", "run")


class ServedTarget:
    """A target that is a door of a server: no request breaks it, and who may only read or answer starts nothing."""

    name: ClassVar[str]
    teams: ClassVar[Mapping[str, str]] = {"one": ONE}
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = "teamwright.server.app"
    accepted_without: ClassVar[bytes] = b'"error"'
    """What an answer has that refuses its request with a status of success."""

    def __init__(self, folder: Path) -> None:
        self._texts = [file.read_text() for file in sorted((CORPUS / self.name).iterdir())]
        for name, team in self.teams.items():
            write_team(folder / "teams" / name, team, REPLIES)
        self._opened = start_blocking_portal()
        self._portal: BlockingPortal = self._opened.__enter__()
        self._served = self._portal.wrap_async_context_manager(_served(folder))
        self._state, self._http = self._served.__enter__()
        self._tokens: dict[str, str] = {role: self._state.tokens.create(role, role) for role in ROLES}

    def send(self, role: str, given: str, request: Callable[[str], Awaitable[httpx2.Response]]) -> Outcome:
        """Send a request as a role, check its answer, and that only the role run has started a run."""
        before = self._portal.call(self._count)
        answer = self._portal.call(request, self._tokens.get(role, "tw_unknown"))
        self.check(answer, given)
        if role != "run" and self._portal.call(self._count) != before:
            raise Violation("started", f"a visitor with the role {role} has started a run", given[:500])
        refused = answer.status_code >= 300 or self.accepted_without in answer.content
        return "refused" if refused else "accepted"

    def check(self, answer: httpx2.Response, given: str) -> None:
        """Refuse an answer that is an error of the server itself, or not in words of ours."""
        check_answer(answer, given)

    async def _count(self) -> int:
        return len(await self._state.engine.runs.list())

    def close(self) -> None:
        self._served.__exit__(None, None, None)
        self._opened.__exit__(None, None, None)


@asynccontextmanager
async def _served(folder: Path) -> AsyncGenerator[tuple[ServerState, httpx2.AsyncClient]]:
    async with Engine(MemoryJournal()) as engine, open_state(engine, [folder / "teams"], folder) as state:
        guard = make_app(state)
        guard._calls = RateLimit(1e9, 1e9)  # pyright: ignore[reportPrivateUsage] - the rate is not the question
        inside = httpx2.ASGITransport(app=guard, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=inside, base_url="http://localhost", timeout=15, verify=NO_CERTIFICATES
        ) as http:
            yield state, http


def check_answer(answer: httpx2.Response, given: str) -> None:
    """A refusal is JSON with words of ours, and never an error of the server itself."""
    if answer.status_code >= 500:
        raise Violation("broken", f"the status is {answer.status_code}", answer.text[:1000])
    check_size(answer.text)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return
    try:
        found: Any = answer.json()
    except ValueError:
        raise Violation("unreadable", "the answer is no JSON", answer.text[:500]) from None
    check_error(found, given)


def check_error(found: Any, given: str) -> None:
    """Refuse an error of the server itself, and words of libraries in one."""
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        if error.get("code") == -32603:
            raise Violation("broken", "the error is one of the server itself", str(found)[:1000])
        check_words(str(error.get("message", "")), given)
