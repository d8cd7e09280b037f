"""`teamwright run`: runs a team on a task and prints its answer.

It rejects output files that the run also reads, so that no manifest, task or script is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import (
    ManifestArguments,
    last_turn,
    new_engine,
    no_manifest,
    recorded_source,
    require_task,
)
from teamwright.cli.terminal.options import (
    AllowRoot,
    Attach,
    Events,
    Full,
    ManifestOrTask,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    NoInput,
    Quiet,
    RunId,
    SourceChange,
    TaskFile,
    TaskText,
    TeamName,
    With,
    read_task,
    run_limits,
    with_options,
)
from teamwright.cli.terminal.output import Json, Out, check_out, say
from teamwright.cli.validate import start_checked
from teamwright.errors import UsageError

if TYPE_CHECKING:
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.recorded.reader import TeamSource
    from teamwright.teams.manifests.manifest_loader import Loaded
    from teamwright.values.limits import Limits
    from teamwright.values.specs.manifest import Source


Continues = Annotated[
    str | None, typer.Option("--continue", metavar="RUN", help="Continue the conversation of a finished run.")
]
ConversationName = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="NAME", help="Run the next turn of this conversation; a new name begins one."
    ),
]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Show what the run is expected to cost, and ask before it spends anything.")
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="NAME", help="The tenant's budget that the run draws on.")
]


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `teamwright run`."""

    chosen: ManifestArguments
    run_id: str | None
    continues: str | None
    conversation: str | None
    file: str | None
    limits: Limits | None
    changes: tuple[SourceChange, ...] = ()
    attach: tuple[str, ...] = ()
    confirm: bool = False
    budget: str | None = None

    @property
    def command(self) -> str:
        """The command line that runs this again, without a task given as an argument."""
        known = f"--continue {self.continues}" if self.continues else f"--conversation {self.conversation}"
        what = quote(str(self.chosen.paths[0])) if self.chosen.paths else known
        return f"teamwright run {what} " + (f"--file {quote(self.file)}" if self.file else '"…"')


@with_options("run_options")
def run(
    manifest: ManifestOrTask = None,
    task: TaskText = None,
    *,
    file: TaskFile = None,
    team: TeamName = None,
    more: With = None,
    model: Model = None,
    run_id: RunId = None,
    continues: Continues = None,
    conversation: ConversationName = None,
    attach: Attach = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    confirm: Confirm = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
    changes: Sequence[SourceChange] = (),
) -> int:
    """Run a team on a task, and print its answer.

    Ctrl-C interrupts a run so that it can be resumed without paying twice. Only run manifests that you trust: code that
    they name (functions, MCP servers) is loaded, as python would, except by `show` and `validate --no-import`.

    Examples:
      teamwright run team.yaml "Write the report."
      teamwright run team.yaml --file task.md --max-usd 1
      teamwright run --continue last "And in French?"
    """

    check_out(out)
    manifest, task = _manifest_and_task(manifest, task, file, continues or conversation)
    paths = () if manifest is None else (Path(manifest), *(more or ()))
    request = Request(
        chosen=ManifestArguments(paths, read_task(task, file), team, model, tuple(allow_root or ())),
        run_id=run_id,
        continues=continues,
        conversation=conversation,
        file=file,
        limits=run_limits(max_tokens, max_usd, max_calls, max_seconds),
        changes=tuple(changes),
        attach=tuple(attach or ()),
        confirm=confirm,
        budget=budget,
    )
    shown = _view_options(json, events, quiet, out, no_input, full)
    return start_checked(request.chosen, run_id, partial(_run, request, shown))


def _view_options(json: bool, events: bool, quiet: bool, out: Path | None, no_input: bool, full: bool) -> ViewOptions:
    from teamwright.cli.foreground_run import ViewOptions

    return ViewOptions(json, events, quiet, out, no_input, full)


def _manifest_and_task(
    manifest: str | None, task: str | None, file: str | None, continues: str | None
) -> tuple[str | None, str | None]:
    """Take a single argument for the task if it is no manifest and the run continues another, whose team it has."""
    if continues and task is None and file is None and manifest is not None and not _exists(manifest):
        return None, manifest
    return manifest, task


async def _run(request: Request, shown: ViewOptions) -> int:
    from teamwright.cli.foreground_run import drive, local_hint, report_end
    from teamwright.cli.terminal.command_setup import extend_sys_path
    from teamwright.teams.preflight import check_ready

    extend_sys_path()
    loaded = request.chosen.load() if request.chosen.paths else None
    async with new_engine() as engine:
        continues = None
        if request.continues is not None:
            continues = await _finished_run_id(engine, request.continues)
        source, task = await _source_and_task(engine, request, loaded, continues)
        exists = request.run_id is not None and await engine.journal.find(request.run_id) is not None
        for change in () if exists else request.changes:  # a run that exists keeps what was recorded with it
            source = source.changed(partial(change.apply, limits=request.limits))
        read = (*files_read(source.source, loaded, request.file), *map(Path, request.attach))
        check_no_overwrite(shown.out, read)
        team = source.build(engine.models)
        if not exists:
            await check_ready(team, engine.models, loaded.places if loaded else None)
        handle = await engine.start(
            team,
            task,
            run_id=request.run_id,
            continues=continues,
            conversation=request.conversation,
            attachments=request.attach,
            limits=request.limits,
            confirm=request.confirm,
            budget=request.budget,
        )
        if not handle.drives:
            say(f"run {handle.run_id} exists already; nothing new is started")
        ended = await drive(engine, handle, shown)
        return await report_end(engine, ended, shown, local_hint(source.source.manifest, request.command))


async def _source_and_task(
    engine: Engine, request: Request, loaded: Loaded | None, continues: str | None
) -> tuple[TeamSource, str]:
    """The team and the task: from the arguments, else from the manifest's query or the continued run."""
    from teamwright.runtime.recorded.reader import TeamSource

    chosen = request.chosen
    if loaded is not None:
        declared, task = chosen.source_and_task(loaded)
        source = TeamSource(declared)
    elif (known := continues or await last_turn(engine, request.conversation)) is not None:
        source, task = await recorded_source(engine, known, chosen.model, chosen.allow_roots), chosen.task
    else:
        raise await no_manifest(engine, request.conversation)
    if not task:
        task = next((own for change in request.changes if (own := change.task(source.source))), task)
    return source, require_task(task)


async def _finished_run_id(engine: Engine, run: str) -> str:
    from teamwright.cli.terminal.command_setup import find_run
    from teamwright.errors import UsageError
    from teamwright.values.turns.results import FINAL

    summary = await find_run(engine.journal, run)
    if summary.status not in FINAL:
        raise UsageError(
            f"Run {summary.id!r} is {summary.status}, and only a finished run can be continued; finish it with"
            f"  teamwright runs resume {summary.id}"
        )
    return summary.id


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def check_no_overwrite(out: Path | None, read: Iterable[Path]) -> None:
    """Reject an output file that the run also reads."""
    if out is not None and out.is_file() and any(one.is_file() and one.samefile(out) for one in read):
        raise UsageError(f"--out {str(out)!r} would overwrite a file that this run reads; name another one.")


def files_read(source: Source, loaded: Loaded | None, task: str | None) -> Iterator[Path]:
    """The files that a run reads: its manifests, its task and the scripts of its agents."""
    yield from (Path(source.base) / file for file in _scripts(source))
    yield from loaded.files if loaded else ()
    if task is not None:
        yield Path(task)


def _scripts(source: Source) -> Iterator[str]:
    from teamwright.teams.builder import SCRIPTED
    from teamwright.values.specs.members import FallbackModel
    from teamwright.values.specs.models import model_key

    specs = source.manifest.agents.values()
    fallbacks = (spec.fallback.model for spec in specs if isinstance(spec.fallback, FallbackModel))
    models = (*source.manifest.models.values(), *fallbacks, *(spec.model for spec in specs if spec.model is not None))
    yield from (key.removeprefix(SCRIPTED) for key in map(model_key, models) if key.startswith(SCRIPTED))
