"""Opens what a command works on: the journal, an engine over it, a run, and the team of a manifest or a record."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from teamwright.cli.terminal.output import flush_all, redirect_prints, say
from teamwright.errors import RunNotFound, UsageError
from teamwright.journal.location import database_url, resolve_journal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.recorded.reader import TeamSource
    from teamwright.teams.manifests.code_references import Code
    from teamwright.teams.manifests.declarations import Query
    from teamwright.teams.manifests.manifest_loader import Loaded
    from teamwright.teams.manifests.variable_checks import SentVariable
    from teamwright.values.specs.manifest import Manifest, Source
    from teamwright.values.turns.results import RunSummary


T = TypeVar("T")
LAST = "last"
MOST_REPORTED = 20
"""At most so many uses of variables or code are listed one by one."""


def with_journal(work: Callable[[Journal], Awaitable[T]], *, busy_timeout: float | None = None) -> T:
    """Call `work` with the user's journal, which opens much faster than an engine, and return its result."""
    import anyio

    async def opened() -> T:
        journal = resolve_journal(busy_timeout=busy_timeout)
        await journal.open()
        try:
            return await work(journal)
        finally:
            await journal.close()

    return anyio.run(opened)


def new_engine() -> Engine:
    """An engine over the user's journal, which is not open; in Postgres, it keeps limits together with the others."""
    from teamwright.history.telemetry.otlp import configured_endpoint
    from teamwright.runtime.engine import Engine
    from teamwright.wings import hooks

    otlp = configured_endpoint()
    if (url := database_url()) is None:
        return Engine(otlp=otlp)
    shared = {name: part for parts in hooks("shared_engine") for name, part in parts(url).items()}
    return Engine(url, otlp=otlp, **shared)


def with_engine(work: Callable[[Engine], Awaitable[int]]) -> int:
    """Call `work` with an engine over the user's journal, and return its exit code."""

    async def opened() -> int:
        async with new_engine() as engine:
            return await work(engine)

    with redirect_prints():
        return run_on_loop(opened)


def run_on_loop(work: Callable[[], Awaitable[int]]) -> int:
    """Run a command on an event loop, and return its exit code.

    A loop that ends waits for every task that members have started. If a member was abandoned, the process exits
    without that wait.
    """
    import anyio

    from teamwright.runtime.tasks import has_abandoned_tasks

    async def whole() -> int:
        code = await work()
        if has_abandoned_tasks():
            flush_all()
            os._exit(code)
        return code

    return anyio.run(whole)


def with_run(run: str, work: Callable[[Engine, RunSummary], Awaitable[int]]) -> int:
    """Call `work` with an engine and the run that the user names, and return its exit code."""

    async def found(engine: Engine) -> int:
        from teamwright.runtime.recorded.reader import deleted_is_not_found

        summary = await find_run(engine.journal, run)
        async with deleted_is_not_found(engine.journal, summary.id):
            return await work(engine, summary)

    return with_engine(found)


def check_new_id(run_id: str | None) -> None:
    """Reject an id for a new run under which it could never be found."""
    if run_id == LAST:
        raise UsageError(f"{LAST!r} means the newest run, so no run can have it as its id; choose another --run-id.")


async def find_run(journal: Journal, wanted: str) -> RunSummary:
    """Return the run with this id or unique prefix, or raise an error that names the candidates."""
    if wanted != LAST and (exact := await journal.find(wanted)):
        return exact
    if wanted == LAST:
        newest = await journal.top_runs(1)
        if not newest:
            raise UsageError("There are no runs yet; start one with  teamwright run")
        return newest[0]
    return _only(wanted, await journal.runs())


def _only(wanted: str, runs: Sequence[RunSummary]) -> RunSummary:
    matching = [run for run in runs if wanted and run.id.startswith(wanted)]
    found = [run for run in matching if not run.parent] or matching  # the ids of children begin like their parent's
    if len(found) > 1:
        names = ", ".join(run.id for run in found[:6]) + (" …" if len(found) > 6 else "")
        raise UsageError(f"{wanted!r} is a prefix of {len(found)} run ids ({names}); write a longer one.")
    if not found:
        raise RunNotFound(wanted, [run.id for run in runs[:200]])
    return found[0]


@dataclass(frozen=True, slots=True)
class ManifestArguments:
    """Which team of which manifests a command starts, and with which task. There are no paths if a run continues."""

    paths: tuple[Path, ...]
    task: str | None = None
    team: str | None = None
    model: str | None = None
    allow_roots: tuple[Path, ...] = ()

    def load(self) -> Loaded:
        return load_manifest(self.paths, self.model)

    def source_and_task(self, loaded: Loaded) -> tuple[Source, str | None]:
        """Return the team and its task: from the arguments, else from the manifest's query for the team."""
        from teamwright.teams.team_loader import source_of

        query = self._query(loaded) if self.task is None else None
        team = self.team or (query.target if query else None) or None
        source = source_of(loaded, team=team, model=self.model, allow_roots=self.allow_roots)
        return source, query.task if query else self.task

    def _query(self, loaded: Loaded) -> Query | None:
        matching = [one for one in loaded.queries.values() if self.team in {None, one.target}]
        if len(matching) > 1:
            names = ", ".join(one.name for one in matching)
            raise UsageError(f"Which task? The manifest has the queries {names}; give the task as an argument.")
        return matching[0] if matching else None


def require_task(task: str | None) -> str:
    """Return the task; raises `UsageError` if it is blank, with how to give one."""
    if task is None or not task.strip():
        raise UsageError('There is no task: give it as an argument ("…"), with --file FILE, or as - from stdin.')
    return task


def load_manifest(paths: Sequence[Path], model: str | None) -> Loaded:
    """Load the files, in which `model` replaces every model, and print the warnings."""
    from teamwright.teams.team_loader import read_manifest

    loaded = read_manifest(paths, models_replaced=model is not None)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded


async def recorded_source(
    engine: Engine,
    run_id: str,
    model: str | None = None,
    allow_roots: Sequence[Path] = (),
    code: Path | None = None,
) -> TeamSource:
    """The team that a run recorded, with another model, more folders, or the folder of its manifest where given."""
    from teamwright.runtime.recorded.reader import read_source
    from teamwright.teams.team_loader import source_with_model, source_with_roots

    history = await engine.runs.history(run_id)
    found = (await read_source(engine.journal, history.record, code or "")).changed(
        partial(source_with_roots, allow_roots=allow_roots)
    )
    return found if model is None else found.changed(partial(source_with_model, model=model))


async def last_turn(engine: Engine, conversation: str | None) -> str | None:
    """The newest run of a conversation, whose team the next turn uses if no manifest is given."""
    if conversation is None:
        return None
    turn = await engine.conversations.last(conversation)
    return None if turn is None else turn.id


async def no_manifest(engine: Engine, conversation: str | None) -> UsageError:
    """Return the error of a command that has no manifest and no conversation to take the team from."""
    from teamwright.errors import nearest

    if conversation is None:
        return UsageError("Name a manifest: a file or a folder. `teamwright new my-team` creates one to start with.")
    hint = nearest(conversation, [one.name for one in await engine.conversations.list()], "name a manifest to begin it")
    return UsageError(f"There is no conversation {conversation!r} to continue: {hint}")


def extend_sys_path() -> None:
    """Append the working directory to `sys.path`, after installed packages; modules beside the manifest come first."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def report_unloaded_code(manifest: Manifest) -> list[JsonValue]:
    """Print which code a manifest names that was not loaded, and return it as data."""
    from teamwright.teams.manifests.code_references import code_in

    return report_each("not loaded", code_in(manifest), "more")


def report_each(what: str, found: Sequence[Code | SentVariable], rest: str) -> list[JsonValue]:
    """Print what was found, line by line, of many only how many more there are, and return it as data."""
    for one in found[:MOST_REPORTED]:
        say(f"{what}: {one}")
    if len(found) > MOST_REPORTED:
        say(f"{what}: {len(found) - MOST_REPORTED} {rest}")
    return [one.to_json() for one in found]
