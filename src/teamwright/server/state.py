"""What the parts of a server share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from teamwright.history.telemetry.metrics import RunMetrics
from teamwright.runtime.driver.tasks import BackgroundTasks
from teamwright.runtime.engine import Engine
from teamwright.server.a2a.push import FILE, PushConfigs
from teamwright.server.a2a.tasks import update_of
from teamwright.server.driven_runs import AwaitedRuns, DrivenRuns
from teamwright.server.event_feeds import Feeds
from teamwright.server.jobs import JobPool
from teamwright.server.overview import Inbox, Overview
from teamwright.server.page.figures import DailyFigures
from teamwright.server.security.audit import Audit, AuditLine
from teamwright.server.security.credentials import Sessions, Tokens
from teamwright.server.security.request_limits import RateLimit
from teamwright.server.team_catalogue import Catalogue
from teamwright.server.webhook_notices import LOG_FILE, WebhookLog, WebhookNotices

STRANGERS = (0.5, 60.0)
"""Requests of one address without a valid token, per second and at once; after these, it has to wait."""
MESSAGES = (20.0, 200.0)
"""Messages of one visitor on all sockets, per second and at once; those that come faster wait in the connection."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """One engine over one journal, the teams that it may run, the runs that it drives, and who may use it."""

    engine: Engine
    catalogue: Catalogue
    tokens: Tokens
    audit: Audit
    driven: DrivenRuns
    feeds: Feeds
    overview: Overview
    inbox: Inbox
    webhook_notices: WebhookNotices
    sessions: Sessions
    awaited: AwaitedRuns
    jobs: JobPool
    figures: DailyFigures
    metrics: RunMetrics
    background: BackgroundTasks = field(init=False, default_factory=BackgroundTasks)
    """What runs as long as the server, and begins at its first use."""
    messages: RateLimit = field(init=False, default_factory=lambda: RateLimit(*MESSAGES))
    strangers: RateLimit = field(init=False, default_factory=lambda: RateLimit(*STRANGERS))


@asynccontextmanager
async def open_state(
    engine: Engine, folders: Sequence[Path], data: Path, *, over_stdio: bool = False
) -> AsyncGenerator[ServerState]:
    """Open the parts of a server over an engine; what they keep is in the folder `data`, beside the journal."""
    driven = DrivenRuns(engine, over_stdio=over_stdio)
    feeds = Feeds(engine, driven)
    overview, awaited, jobs = Overview(engine), AwaitedRuns(engine), JobPool(folders)
    tokens = Tokens(data / "server-tokens.json")
    webhook_notices = WebhookNotices(engine, driven, WebhookLog(data / LOG_FILE), PushConfigs(data / FILE))
    state = ServerState(
        engine,
        Catalogue(folders),
        tokens,
        Audit(data / "server-audit.jsonl", AuditLine),
        driven,
        feeds,
        overview,
        Inbox(engine),
        webhook_notices,
        Sessions(tokens, file=data / "server-sessions.json"),
        awaited,
        jobs,
        DailyFigures(engine.journal),
        RunMetrics(),
    )
    webhook_notices.describe = partial(update_of, engine, state.inbox)
    async with (
        webhook_notices.opened(),
        driven.opened() as left,
        feeds.opened(),
        overview.opened(),
        awaited.opened(),
        jobs.opened(),
    ):
        awaited.restore(left)
        await state.background.open()
        try:
            with engine.bus.observing(state.metrics.count):
                yield state
        finally:
            await state.background.close()
