"""Tells a webhook when a run of this server has ended or comes close to its budget; the core tells it of pauses.

Each notice is signed and tried again as those of the core, and each attempt is a line in a file beside the journal: an
ended run takes no more events. Nothing here delays a run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Literal

import anyio
from pydantic import BaseModel, JsonValue

from teamwright.agents.functions.threads import run_in_thread
from teamwright.errors import JournalError, RunNotFound
from teamwright.runtime.people.webhook import BACKOFF, Response, Webhook, page_address, post
from teamwright.runtime.tasks import BackgroundTasks
from teamwright.server.a2a.tasks import PushConfigs, receiver
from teamwright.server.guard import JsonLines
from teamwright.values.events.budget import BudgetDegraded, BudgetExceeded, BudgetRefused
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunEnded, RunPaused, RunResumed
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import iso

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

NoticeKind = Literal["run.completed", "run.failed", "budget.warning", "task.updated"]
LOG_FILE = "server-webhooks.jsonl"
REMEMBERED = 10_000
"""How many lines are searched for notices that are to be tried again."""
SUCCESSES = frozenset(("completed", "degraded"))


class WebhookLine(BaseModel):
    """One attempt to deliver a notice; `retry_in` is when the next is due, in seconds.

    A line with the attempt 0 says that the first one is due: it may be under way when a server is killed. `config` is
    the address of a client that a notice about its task goes to; empty for the webhook of the environment.
    """

    time: str
    run_id: str
    number: int
    kind: NoticeKind
    attempt: int
    error: str | None
    retry_in: float | None
    config: str = ""

    def due(self) -> float:
        """The time of the next attempt."""
        return datetime.fromisoformat(self.time).timestamp() + (self.retry_in or 0.0)


class WebhookLog(JsonLines[WebhookLine]):
    """The attempts to deliver notices, and notices that are due."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, WebhookLine)

    def attempts(self, limit: int) -> list[WebhookLine]:
        """Return the last attempts, newest first."""
        made = (line for line in self.read(2 * limit + REMEMBERED) if line.attempt or line.error is not None)
        return list(islice(made, limit))


@dataclass(frozen=True, slots=True)
class DueNotice:
    """A notice about an event of a run; `last` is its last attempt, if a server before this one made any."""

    run_id: str
    number: int
    kind: NoticeKind
    config: str = ""
    last: WebhookLine | None = None


class WebhookNotices:
    """Sends notices about runs that this server drives to the webhook of the environment, each at least once.

    Clients of A2A name addresses for their own tasks, in `pushes`; `describe` returns what they are sent.
    """

    def __init__(self, engine: Engine, driven: Container[str], log: WebhookLog, pushes: PushConfigs) -> None:
        self._engine, self._driven, self.log, self.pushes = engine, driven, log, pushes
        self.describe: Callable[[str], Awaitable[dict[str, JsonValue]]] | None = None
        self._tasks = BackgroundTasks()
        self._warned: set[str] = set()
        self._due: asyncio.Queue[DueNotice] = asyncio.Queue()
        self.backoff: Sequence[float] = BACKOFF

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Send notices within this block."""
        await self._tasks.open()
        try:
            with self._engine.bus.observing(self._arrive):
                self._continue()
                self._tasks.group().start_soon(self._dispatch)
                yield
        finally:
            await self._tasks.close()

    def _arrive(self, item: Event | AnyDelta) -> None:
        if not isinstance(item, Event) or item.run_id not in self._driven:
            return
        if isinstance(item.fact, RunEnded | RunPaused | RunResumed):
            for config in self.pushes.of(item.run_id):
                self._notify(item.run_id, item.number, "task.updated", config.id)
        match item.fact:
            case RunEnded(status=status):
                self._warned.discard(item.run_id)
                self._notify_environment(item, "run.completed" if status in SUCCESSES else "run.failed")
            case BudgetDegraded() | BudgetExceeded() | BudgetRefused() if item.run_id not in self._warned:
                self._warned.add(item.run_id)  # one warning for each drive of a run
                self._notify_environment(item, "budget.warning")
            case _:
                pass

    def _notify_environment(self, item: Event, kind: NoticeKind) -> None:
        if Webhook.of(None) is not None:
            self._notify(item.run_id, item.number, kind)

    def _continue(self) -> None:
        """Go on with what was to be tried again when the server stopped."""
        seen: set[tuple[str, int, str]] = set()
        for line in self.log.read(REMEMBERED):
            notice = line.run_id, line.number, line.config
            if notice not in seen and line.retry_in is not None:
                self._send(DueNotice(line.run_id, line.number, line.kind, line.config, line))
            seen.add(notice)

    def _notify(self, run_id: str, number: int, kind: NoticeKind, config: str = "") -> None:
        """Send a notice, which is written down first: a server that is killed leaves it to the next."""
        due = DueNotice(run_id, number, kind, config)
        self._write(due, 0, None, 0.0)
        self._send(due)

    def _send(self, due: DueNotice) -> None:
        # Events arrive in a callback of the journal's, where no task can be started.
        self._due.put_nowait(due)

    async def _dispatch(self) -> None:
        while True:
            due = await self._due.get()
            if (found := self._receiver(due)) is not None:
                self._tasks.group().start_soon(self._deliver, *found, due)

    def _receiver(self, due: DueNotice) -> tuple[Webhook, Mapping[str, str]] | None:
        """Return where a notice goes and the headers of its receiver; `None` if there is no such address any more."""
        if not due.config:
            return None if (webhook := Webhook.of(None)) is None else (webhook, {})
        config = self.pushes.find(due.run_id, due.config)
        return None if config is None else receiver(config)

    async def _deliver(self, webhook: Webhook, headers: Mapping[str, str], due: DueNotice) -> None:
        made, body = 0, b""
        about = f"{due.run_id}/{due.number}{due.config and '/' + due.config}"
        name = f"msg_{blake2b(about.encode(), digest_size=16).hexdigest()}"
        if due.last is not None:
            made = due.last.attempt
            await anyio.sleep(max(0.0, due.last.due() - time()))
        for count, wait in list(enumerate((*self.backoff, None), 1))[made:]:
            try:
                body = body or json.dumps(await self._notice(due)).encode()
                call = partial(post, webhook, name, int(time()), body, headers)
                response = await run_in_thread(call, "teamwright webhook")
            except RunNotFound:  # it was deleted meanwhile
                return
            except JournalError as error:  # it may be back at the next attempt
                response = Response(str(error), retryable=True)
            except anyio.get_cancelled_exc_class():
                self._write(due, count - 1, "the server stopped before it had answered", 0.0)
                raise
            later = max(wait, response.retry_after) if response.retryable and wait is not None else None
            self._write(due, count, response.error, later)
            if later is None:
                return
            await anyio.sleep(later)

    def _write(self, due: DueNotice, attempt: int, error: str | None, retry_in: float | None) -> None:
        line = WebhookLine(
            time=iso(time()),
            run_id=due.run_id,
            number=due.number,
            kind=due.kind,
            attempt=attempt,
            error=None if error is None else mask_text(error),
            retry_in=retry_in,
            config=due.config,
        )
        self.log.write(line)

    async def _notice(self, due: DueNotice) -> dict[str, JsonValue]:
        run_id = due.run_id
        if due.config and self.describe is not None:
            return await self.describe(run_id)
        result = await self._engine.runs.result(run_id)
        summary = await self._engine.runs.find(run_id)
        return {
            "kind": due.kind,
            "run_id": run_id,
            "team": summary.team if summary is not None else "",
            "status": result.status,
            "stop_reason": result.stop_reason,
            "number": due.number,
            "total_tokens": result.usage.total_tokens,
            "usd": result.usage.usd,
            "url": page_address(run_id),
        }
