"""Arguments and options that several commands share, what they mean, and the options that wings add to commands.

A shell completes runs, teams, members and conversations. A completion never fails and never writes: where something
can't be read, there is nothing to complete. It loads no code that a manifest names.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast, get_args, get_type_hints

import typer

from teamwright.errors import TeamwrightError, UnknownName, UsageError
from teamwright.values.text.display import seconds_in
from teamwright.wings import hooks

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.values.limits import Limits
    from teamwright.values.specs.manifest import Source
    from teamwright.values.turns.results import Status


MOST_RUNS = 200
"""At most so many runs are offered, the newest."""
Completions = list[tuple[str, str]]
"""The words that fit, each with a line about it; shells that show no lines leave it out."""


def complete_runs(incomplete: str) -> Completions:
    """The newest runs whose ids begin so, with their teams and statuses, and `last`."""

    async def read(journal: Journal) -> Completions:
        runs = await journal.top_runs(MOST_RUNS)
        return [("last", "the newest run"), *((run.id, f"{run.team}, {run.status}") for run in runs)]

    return _fitting(_from_journal(read), incomplete)


def complete_conversations(incomplete: str) -> Completions:
    """The conversations whose names begin so."""

    async def read(journal: Journal) -> Completions:
        runs = await journal.runs()
        return [(name, "") for name in dict.fromkeys(run.conversation for run in runs) if name]

    return _fitting(_from_journal(read), incomplete)


def complete_members(ctx: typer.Context, incomplete: str) -> Completions:
    """The members of the run that the command names."""
    run = _first_argument(ctx, "run")

    async def read(journal: Journal) -> Completions:
        from teamwright.cli.terminal.command_setup import find_run
        from teamwright.values.events.team import TeamStarted

        events = await journal.read((await find_run(journal, run or "")).id)
        teams = (event.fact for event in events if isinstance(event.fact, TeamStarted))
        return [(name, "") for name in dict.fromkeys(name for team in teams for name in team.members)]

    return _fitting(_from_journal(read) if run else [], incomplete)


def complete_teams(ctx: typer.Context, incomplete: str) -> Completions:
    """The teams and agents of the manifests that the command names."""
    paths = [_first_argument(ctx, "manifest"), *(ctx.params.get("more") or ())]
    found: Completions = []
    with suppress(TeamwrightError, OSError, ValueError):
        from teamwright.agents.functions.imports import code_not_loaded
        from teamwright.teams.team_loader import read_manifest

        with code_not_loaded():
            manifest = read_manifest([Path(one) for one in paths if one], models_replaced=True).manifest
        found = [(name, "team") for name in manifest.teams] + [(name, "agent") for name in manifest.agents]
    return _fitting(found, incomplete)


def _first_argument(ctx: typer.Context, name: str) -> str | None:
    """The first argument of the command; the parser leaves it out behind an option whose value is being written."""
    if given := ctx.params.get(name):
        return str(given)
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    with suppress(ValueError):  # a quote that is still open
        words = shlex.split(line)[len(ctx.command_path.split()) :]
        return next((word for word in words if not word.startswith("-")), None)
    return None


def _from_journal(read: Callable[[Journal], Awaitable[Completions]]) -> Completions:
    """Read the user's journal, if there is one."""
    from teamwright.cli.terminal.command_setup import with_journal
    from teamwright.journal.location import has_journal

    with suppress(TeamwrightError, OSError, ValueError):
        if has_journal():
            return with_journal(read, busy_timeout=1.0)
    return []


def _fitting(found: Iterable[tuple[str, str]], incomplete: str) -> Completions:
    return [one for one in found if one[0].startswith(incomplete)]


CHANGES = "changes"
"""The argument of a command that takes what the options of wings ask for."""
STDIN = "-"
ManifestOrTask = Annotated[
    str | None, typer.Argument(metavar="MANIFEST", help="A file, or a folder whose YAML files load together.")
]
TaskText = Annotated[
    str | None, typer.Argument(metavar="[TASK]", help="What the team should do; `-` reads it from stdin.")
]
RunId = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Id of the run; an id that exists is not run again.")
]
TaskFile = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the task from a file; `-` is stdin.")
]
Attach = Annotated[
    list[str] | None,
    typer.Option(
        "--attach", metavar="FILE", help="Attach an image or another file to the task; repeat it for more files."
    ),
]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, a unique prefix of it, or `last`.", autocompletion=complete_runs),
]
ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A file, or a folder of YAML files.")]
With = Annotated[
    list[Path] | None, typer.Option("--with", metavar="FILE", help="Another manifest to load; may be repeated.")
]
AllowRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        metavar="DIR",
        help="Let file tools use this folder outside the manifest's; may be repeated.",
    ),
]
MovedTo = Annotated[
    Path | None,
    typer.Option(
        "--code", metavar="DIR", help="The folder of the run's manifest and code, if it was moved or renamed."
    ),
]
TeamName = Annotated[
    str | None,
    typer.Option("--team", help="Which team or agent, if there are several.", autocompletion=complete_teams),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="Use this model for every agent: provider:name, URL#name, local, scripted:replies.yaml."
    ),
]
Events = Annotated[bool, typer.Option("--events", help="Print each event as a line of JSON.")]
Full = Annotated[bool, typer.Option("--full", help="Show the arguments and results of tool calls whole.")]
NoInput = Annotated[bool, typer.Option("--no-input", help="Do not prompt: a run that waits for a person is paused.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Limit the run to N tokens.")]
MaxUsd = Annotated[float | None, typer.Option("--max-usd", min=0, metavar="X", help="Limit the run to X US dollars.")]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", min=1, metavar="N", help="Limit the run to N calls.")]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, metavar="S", help="Limit the run to S seconds.")
]


def run_limits(tokens: int | None, usd: float | None, calls: int | None, seconds: float | None) -> Limits | None:
    """The limits given on the command line, or None if there are none."""
    from pydantic import ValidationError

    from teamwright.values.limits import Limits
    from teamwright.values.text.validation_messages import misfits_of

    given = {"tokens": tokens, "usd": usd, "calls": calls, "seconds": seconds}
    given = {name: bound for name, bound in given.items() if bound is not None}
    try:
        return Limits.model_validate(given) if given else None
    except ValidationError as error:
        first = misfits_of(error, given)[0]
        raise UsageError(f"--max-{first.at[0]} {first.text}.") from error


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `PORT` or `HOST:PORT`; the host is loopback unless it is named."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--port {text!r} is no place to listen on; write a port such as 9100, or HOST:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)


def seconds_of(text: str, what: str = "an age") -> float:
    """Return the seconds of a duration such as 7d; messages call it `what`."""
    if (seconds := seconds_in(text)) is None:
        raise UsageError(f"{text!r} is not {what}; write a number and a unit, for example 90s, 30m, 12h, 7d or 4w.")
    return seconds


def check_statuses(names: Sequence[str] | None) -> tuple[Status, ...]:
    """Return the statuses with these names, or reject an unknown one."""
    from teamwright.values.turns.results import Status

    known = get_args(Status)
    for name in names or ():
        if name not in known:
            raise UnknownName("status", name, known)
    return cast("tuple[Status, ...]", tuple(names or ()))


class SourceChange(Protocol):
    """A change of the team before its run starts."""

    def apply(self, source: Source, limits: Limits | None) -> Source:
        """Return the changed source, and print what was changed and why."""
        ...

    def task(self, source: Source) -> str | None:
        """Return the task of a run to which none was given; `None` if it needs one."""
        ...


class AddedOptions(Protocol):
    """Options of a wing: keyword parameters as Typer reads them, and what they ask for."""

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    def read(self, **given: Any) -> SourceChange | None:
        """Return the change that the options ask for, or None."""
        ...


def with_options(place: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options that wings bring for this place to a command."""

    def added_to(command: Callable[..., int]) -> Callable[..., int]:
        added = cast("list[AddedOptions]", hooks(place))

        def call(**given: Any) -> int:
            read = [one.read(**{option.name: given.pop(option.name) for option in one.parameters}) for one in added]
            return command(**given, changes=tuple(change for change in read if change is not None))

        hints = get_type_hints(command, include_extras=True)
        given = {name: one for name, one in signature(command).parameters.items() if name != CHANGES}
        parameters = [one.replace(annotation=hints[name]) for name, one in given.items()]
        parameters += [option for one in added for option in one.parameters]
        call.__doc__, call.__name__ = command.__doc__, command.__name__
        call.__signature__ = signature(command).replace(parameters=parameters, return_annotation=int)  # pyright: ignore[reportFunctionMemberAccess]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return added_to


def read_task(task: str | None, file: str | None = None, what: str = "task") -> str | None:
    """The task from the argument, a file or stdin; messages call it `what`."""
    if task is not None and file is not None:
        raise UsageError(f"The {what} is given twice, as an argument and with --file; remove one of them.")
    try:
        if STDIN in {task, file}:
            return _decode_task(sys.stdin.buffer.read(_task_limit() + 1), f"{what} in stdin")
        if file is None:
            return task
        with Path(file).open("rb") as opened:
            return _decode_task(opened.read(_task_limit() + 1), f"{what} in {file!r}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"The {what} can't be read from {file or STDIN!r}: {reason}.") from error


def _task_limit() -> int:
    from teamwright.runtime.run_request import LARGEST_TASK

    return LARGEST_TASK


def _decode_task(content: bytes, what: str) -> str:
    if len(content) > (limit := _task_limit()):
        raise UsageError(f"The {what} is larger than {limit // 1024} KiB; give the team a tool to read it.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"The {what} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
