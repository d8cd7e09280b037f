"""Tells a webhook when a run of this server has ended or comes close to its budget; the core tells it of pauses.

Each notice is signed and tried again as those of the core, and each attempt is a line in a file beside the journal: an
ended run takes no more events. Nothing here delays a run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Container, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from time import time
from typing import TYPE_CHECKING, Literal

import anyio
from pydantic import BaseModel, JsonValue

from teamwright.agents.functions.threads import run_in_thread
from teamwright.errors import TeamwrightError
from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.runtime.webhooks.deliveries import BACKOFF
from teamwright.runtime.webhooks.notice import page_address
from teamwright.runtime.webhooks.request import Response, Webhook, post
from teamwright.server.json_lines import JsonLines
from teamwright.values.events.budget import BudgetDegraded, BudgetExceeded, BudgetRefused
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunEnded
from teamwright.values.results import iso
from teamwright.values.secrets.patterns import mask_text

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

NoticeKind = Literal["run.completed", "run.failed", "budget.warning"]
SUCCESSES = frozenset(("completed", "degraded"))


class WebhookLine(BaseModel):
    """One attempt to deliver a notice; `retry_in` is when the next is due, in seconds."""

    time: str
    run_id: str
    number: int
    kind: NoticeKind
    attempt: int
    error: str | None
    retry_in: float | None


WebhookLog = JsonLines[WebhookLine]


class WebhookNotices:
    """Sends notices about runs that this server drives to the webhook of the environment."""

    def __init__(self, engine: Engine, driven: Container[str], log: WebhookLog) -> None:
        self._engine, self._driven, self.log = engine, driven, log
        self._tasks = BackgroundTasks()
        self._warned: set[str] = set()
        self.backoff: Sequence[float] = BACKOFF

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Send notices within this block."""
        await self._tasks.open()
        try:
            with self._engine.bus.listening(self._arrive):
                yield
        finally:
            await self._tasks.close()

    def _arrive(self, item: Event | AnyDelta) -> None:
        if not isinstance(item, Event) or item.run_id not in self._driven:
            return
        match item.fact:
            case RunEnded(status=status):
                self._warned.discard(item.run_id)
                self._send(item, "run.completed" if status in SUCCESSES else "run.failed")
            case BudgetDegraded() | BudgetExceeded() | BudgetRefused() if item.run_id not in self._warned:
                self._warned.add(item.run_id)  # one warning for each drive of a run
                self._send(item, "budget.warning")
            case _:
                pass

    def _send(self, event: Event, kind: NoticeKind) -> None:
        if (webhook := Webhook.of(None)) is not None:
            self._tasks.group().start_soon(self._deliver, webhook, event, kind)

    async def _deliver(self, webhook: Webhook, event: Event, kind: NoticeKind) -> None:
        try:
            body = json.dumps(await self._notice(event, kind)).encode()
        except TeamwrightError:  # the run was deleted meanwhile
            return
        name = f"msg_{blake2b(f'{event.run_id}/{event.number}'.encode(), digest_size=16).hexdigest()}"

        def attempt() -> Response:
            return post(webhook, name, int(time()), body)

        for number, wait in enumerate((*self.backoff, None), 1):
            response = await run_in_thread(attempt, "teamwright webhook")
            later = max(wait, response.retry_after) if response.retryable and wait is not None else None
            self.log.write(
                WebhookLine(
                    time=iso(time()),
                    run_id=event.run_id,
                    number=event.number,
                    kind=kind,
                    attempt=number,
                    error=None if response.error is None else mask_text(response.error),
                    retry_in=later,
                )
            )
            if later is None:
                return
            await anyio.sleep(later)

    async def _notice(self, event: Event, kind: NoticeKind) -> dict[str, JsonValue]:
        result = await self._engine.runs.result(event.run_id)
        summary = await self._engine.runs.find(event.run_id)
        return {
            "kind": kind,
            "run_id": event.run_id,
            "team": summary.team if summary is not None else "",
            "status": result.status,
            "stop_reason": result.stop_reason,
            "number": event.number,
            "total_tokens": result.usage.total_tokens,
            "usd": result.usage.usd,
            "url": page_address(event.run_id),
        }
