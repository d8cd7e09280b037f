"""Lists the tasks of a team, the one whose status has changed last first.

A page costs the same however many runs there are: it begins after the task that its token names, and the journal finds
by the statuses of runs all states but those that more than the status tells.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import structs

from teamwright.errors import TeamwrightError, UsageError
from teamwright.journal.run_filter import EVERY_KIND, RecentRuns, RunKind
from teamwright.server.a2a.agent import TeamAgent
from teamwright.server.a2a.wire import INVALID_PARAMS, MOST_TASKS, A2AError, Json, ListTasks, TaskState
from teamwright.values.names import NAME, check_name
from teamwright.values.turns.results import RunSummary

PAGE = 50
"""Tasks of a page, unless its client asks for another number."""
KINDS: Mapping[TaskState, tuple[RunKind, ...]] = {
    "TASK_STATE_UNSPECIFIED": EVERY_KIND,
    "TASK_STATE_SUBMITTED": (RunKind("queued"),),
    "TASK_STATE_WORKING": (RunKind("running"), RunKind("interrupted"), RunKind("paused")),
    "TASK_STATE_INPUT_REQUIRED": (RunKind("paused"),),
    "TASK_STATE_COMPLETED": (RunKind("completed"), RunKind("degraded", done=True)),
    "TASK_STATE_FAILED": (RunKind("failed"), RunKind("timeout"), RunKind("degraded", done=False)),
    "TASK_STATE_CANCELED": (RunKind("cancelled"),),
    "TASK_STATE_REJECTED": (RunKind("cancelled"),),
    "TASK_STATE_AUTH_REQUIRED": (),
}
"""The kinds of runs whose task may have a state; without one, of all tasks."""
UNSURE = frozenset[TaskState](
    ("TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")
)
"""The states that the status of a run alone does not tell: all runs that may have them are looked at."""


class _Start(NamedTuple):
    """Where a page begins: after the task `id` whose status is of the time `since`; `total` is that of the list."""

    since: float
    id: str
    total: int


async def list_tasks(agent: TeamAgent, asked: ListTasks) -> Json:
    """Return a page of the tasks of a team."""
    size = min(asked.page_size or PAGE, MOST_TASKS)
    start = _read_token(asked.page_token) if asked.page_token else None
    after = asked.status_timestamp_after
    which = RecentRuns(
        agent.team.name, KINDS[asked.status], 0.0 if after is None else after.timestamp(), start and start[:2]
    )
    if asked.context_id or asked.status in UNSURE or not which.kinds:
        found, total = await _looked_at(agent, asked, which)
    else:
        journal = agent.server.engine.journal
        found = await journal.top_runs(size + 1, which)
        total = await journal.count_recent(which) if start is None else start.total
    page = found[:size]
    tasks = [task for one in page if (task := await _task(agent, asked, one)) is not None]
    more = len(found) > size
    return {
        "tasks": tasks,
        "nextPageToken": _token(_Start(page[-1].since, page[-1].id, total)) if more else "",
        "pageSize": size,
        "totalSize": total,
    }


async def _task(agent: TeamAgent, asked: ListTasks, one: RunSummary) -> Json | None:
    """Return a task of a list; `None` if its run is damaged or was deleted meanwhile, which hides no other."""
    try:
        return await agent.tasks.task(one, asked.history_length, artifacts=asked.include_artifacts)
    except (TeamwrightError, A2AError):
        return None


async def _looked_at(agent: TeamAgent, asked: ListTasks, which: RecentRuns) -> tuple[list[RunSummary], int]:
    """Return the runs of a page and after it, and how many there are, by looking at each that may fit."""
    journal, every = agent.server.engine.journal, structs.replace(which, before=None)
    if asked.context_id and NAME.fullmatch(asked.context_id) is None:
        runs: list[RunSummary] = []
    elif asked.context_id:
        runs = await journal.runs(conversation=asked.context_id)
        own = await journal.find(asked.context_id)
        runs = every.pick([*runs, own] if own is not None and not own.conversation else runs, None)
    else:
        runs = await journal.top_runs(None, every) if every.kinds else []
    if asked.status in UNSURE:
        runs = [one for one in runs if await _state(agent, one) == asked.status]
    return which.pick(runs, None), len(runs)


async def _state(agent: TeamAgent, one: RunSummary) -> TaskState | None:
    try:
        return await agent.tasks.state(one)
    except TeamwrightError:
        return None


def _token(start: _Start) -> str:
    return urlsafe_b64encode(json.dumps(start).encode()).decode()


def _read_token(token: str) -> _Start:
    """Return where a page begins; raises `A2AError` for what is no token of ours."""
    try:
        match json.loads(urlsafe_b64decode(token.encode("ascii"))):
            case [float() as since, str() as run_id, int() as total] if math.isfinite(since) and total >= 0:
                return _Start(since, check_name("run", run_id), total)
            case _:
                pass
    except (ValueError, RecursionError, UsageError):
        pass
    raise A2AError(INVALID_PARAMS, "the page token is none that this agent gave")
