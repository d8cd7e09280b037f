"""What the parts of a server share, and what a route gets of it: itself, and the visitor with the role that it needs.

A visitor is known by a token, or by the session of a browser.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from teamwright.errors import TeamwrightError
from teamwright.history.telemetry.exporter import RunMetrics
from teamwright.runtime.engine import Engine
from teamwright.runtime.tasks import BackgroundTasks
from teamwright.server.a2a.tasks import FILE, PushConfigs, update_of
from teamwright.server.credentials import SESSION_PREFIX, Role, Sessions, Tokens, Visitor
from teamwright.server.driven_runs import AwaitedRuns, DrivenRuns
from teamwright.server.error_responses import NotAllowed, NotKnown, TooManyTries, require_run
from teamwright.server.event_feeds import Feeds
from teamwright.server.guard import Audit, AuditLine, RateLimit
from teamwright.server.jobs import JobPool
from teamwright.server.overview import Inbox, Overview
from teamwright.server.page.figures import DailyFigures
from teamwright.server.team_catalogue import Catalogue
from teamwright.server.webhook_notices import LOG_FILE, WebhookLog, WebhookNotices
from teamwright.values.turns.results import RunSummary

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
    feeds.at_close(awaited.close)
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


BEARER = "bearer "
SUBPROTOCOL, SHOWN = "teamwright", "teamwright.bearer."
"""What a socket of a browser offers, which can't send a header: the protocol, and a token or session after its name."""


def state_of(connection: HTTPConnection) -> ServerState:
    """Return what the parts of the server share."""
    state = connection.app.state.server
    assert isinstance(state, ServerState)
    return state


def visitor_of(connection: HTTPConnection) -> Visitor:
    """Return who sends a request; raises `NotKnown`."""
    found = known_visitor(connection, state_of(connection))
    if found is None:
        raise stranger(connection)
    connection.state.visitor = found
    return found


def known_visitor(connection: HTTPConnection, state: ServerState) -> Visitor | None:
    """Return who sends a request; `None` for a stranger."""
    shown = shown_secret(connection)
    if shown.startswith(SESSION_PREFIX):
        return state.sessions.visitor(shown)
    return state.tokens.visitor(shown) if shown else None


def visitor_name(state: ServerState, connection: HTTPConnection) -> str | None:
    """Return the name of a known visitor; `None` for a stranger, and where the tokens can't be read."""
    try:
        visitor = known_visitor(connection, state)
    except TeamwrightError:  # the route says what is wrong with the tokens
        return None
    return None if visitor is None else visitor.name


def shown_secret(connection: HTTPConnection) -> str:
    """Return the token or session that a request shows; empty if there is none.

    There is no cookie: a browser would send it to every port of this machine, where other programs listen.
    """
    header = connection.headers.get("authorization", "")
    if header.lower().startswith(BEARER):
        return header[len(BEARER) :].strip()
    offered = connection.headers.get("sec-websocket-protocol", "") if connection.scope["type"] == "websocket" else ""
    found = (one.strip() for one in offered.split(","))
    return next((one.removeprefix(SHOWN) for one in found if one.startswith(SHOWN)), "")


def offers_subprotocol(connection: HTTPConnection) -> bool:
    """Whether a socket offers our protocol, which has to be accepted then."""
    return SUBPROTOCOL in (one.strip() for one in connection.headers.get("sec-websocket-protocol", "").split(","))


def stranger(connection: HTTPConnection) -> NotKnown:
    """Return the error for a visitor who shows nothing that is known; one who tries often has to wait."""
    address = connection.client.host if connection.client is not None else ""
    return TooManyTries() if state_of(connection).strangers.wait(address) else NotKnown()


def need(connection: HTTPConnection, role: Role) -> Visitor:
    """Return the visitor, who has to have this role; raises `NotKnown` or `NotAllowed`."""
    visitor = visitor_of(connection)
    if not visitor.may(role):
        raise NotAllowed(visitor, role)
    return visitor


async def _found_run(server: Annotated[ServerState, Depends(state_of)], run_id: str) -> RunSummary:
    return await require_run(server.engine, run_id)


def _reader(connection: HTTPConnection) -> Visitor:
    return need(connection, "read")


def _answerer(connection: HTTPConnection) -> Visitor:
    return need(connection, "answer")


def _runner(connection: HTTPConnection) -> Visitor:
    return need(connection, "run")


def _admin(connection: HTTPConnection) -> Visitor:
    return need(connection, "admin")


MAY_READ, MAY_ANSWER, MAY_RUN, MAY_ADMIN = Depends(_reader), Depends(_answerer), Depends(_runner), Depends(_admin)
"""What a route needs where it does not matter who the visitor is."""
Server = Annotated[ServerState, Depends(state_of)]
Reader = Annotated[Visitor, Depends(_reader)]
Answerer = Annotated[Visitor, Depends(_answerer)]
Runner = Annotated[Visitor, Depends(_runner)]
Admin = Annotated[Visitor, Depends(_admin)]
"""The visitor of a route, who may read, answer questions and steer, start and end runs, or administer the server."""
FoundRun = Annotated[RunSummary, Depends(_found_run)]
"""The run that the address of a route names. It comes after the visitor, so that a stranger learns of no run."""
