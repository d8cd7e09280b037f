"""The command line: one file per command or group, which is loaded when its command is called.

Help must stay fast, so nothing here or at the top of a command's file may import the engine, pydantic or Rich.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from inspect import Parameter, Signature, getdoc, signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, cast

import typer

from teamwright.cli.entry import server_options, take_option
from teamwright.cli.terminal.errors import guarded
from teamwright.cli.terminal.interrupts import INTERRUPTED
from teamwright.cli.terminal.output import flush_all, json_lines, wants_json_lines, write_result
from teamwright.wings import find_wings

if TYPE_CHECKING:
    from typer.core import TyperGroup

OWN = "teamwright.cli"
COMMANDS: Mapping[str, str] = {
    "run": f"{OWN}.run:run",
    "chat": f"{OWN}.chat:chat",
    "show": f"{OWN}.show:show",
    "plan": f"{OWN}.plan:plan",
    "validate": f"{OWN}.validate:validate",
    "schema": f"{OWN}.validate:schema",
    "test": f"{OWN}.test:replay_cases",
    "new": f"{OWN}.new:new",
    "doctor": f"{OWN}.doctor:doctor",
    "memory": f"{OWN}.memory:memory",
    "runs list": f"{OWN}.runs.list:list_runs",
    "runs show": f"{OWN}.runs.show:show",
    "runs logs": f"{OWN}.runs.logs:logs",
    "runs conversations": f"{OWN}.runs.conversations:conversations",
    "runs diff": f"{OWN}.runs.diff:diff",
    "runs kpi": f"{OWN}.runs.kpi:kpi",
    "runs resume": f"{OWN}.runs.resume:resume",
    "runs fork": f"{OWN}.runs.resume:fork",
    "runs answer": f"{OWN}.runs.answer:answer",
    "runs steer": f"{OWN}.runs.steer:steer",
    "runs cancel": f"{OWN}.runs.steer:cancel",
    "runs export": f"{OWN}.runs.export:export",
    "runs apply": f"{OWN}.runs.diff:apply",
    "runs check": f"{OWN}.test:check",
    "runs delete": f"{OWN}.runs.delete:delete",
}
"""The words of each command of the core, in the order of help, and the function or the Typer application behind it."""
GROUPS = {"runs": "Inspect, resume, fork and cancel runs.\n\nRUN is a run's id, a unique prefix of it, or `last`."}
EXAMPLES = re.compile(r"\n\n(Examples?:\n)")
"""The beginning of the last paragraph of a command's help."""
WHERE_DATA_LIVES = (
    "Data lives in TEAMWRIGHT_HOME, by default the platform's data folder. TEAMWRIGHT_DEBUG=1 shows tracebacks."
)
FIRST_DAY = {
    "new my-team": "create a team that runs offline, and needs no key",
    'run my-team "…"': "run it; a run that was killed resumes without paying twice",
}
LAST_OF_FIRST_DAY = {"runs show last": "explain the last run; `runs list` has them all"}


def _keep_examples(group: typer.Typer) -> None:
    """Keep the lines of examples in the help of commands as they are; other paragraphs are wrapped."""
    for one in group.registered_commands:
        help_text = getdoc(one.callback) or ""
        one.help = EXAMPLES.sub(lambda found: f"\n\n\b\n{found[1]}", help_text)
    for one in group.registered_groups:
        if one.typer_instance is not None:
            _keep_examples(one.typer_instance)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write_result(f"teamwright {version('teamwright')}")
        raise typer.Exit


def first_day() -> str:
    """The commands of the first day, those of the core and of the wings that are there."""
    wings = {command: line for wing in find_wings() for command, line in wing.first_day.items()}
    commands = {**FIRST_DAY, **wings, **LAST_OF_FIRST_DAY}
    lines = [f"  teamwright {command:<22}{line}" for command, line in commands.items()]
    return "\n".join([
        "Teamwright runs teams of AI agents as dependable software.", "", *lines, "",
        "all commands: teamwright --help     one of them, with an example: teamwright run --help",
    ])  # fmt: skip


def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    **servers: str | None,
) -> None:
    """Run teams of AI agents: declare a team, run it, watch it, kill it, resume it without paying twice."""
    del version, servers  # what they ask for is done before
    if ctx.invoked_subcommand is None:
        write_result(first_day())


@cache
def _root_with_servers() -> Callable[..., None]:
    """The function before any command, whose help lists the options of servers; they are taken wherever they stand."""
    own = [one for one in signature(root, eval_str=True).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    for option, server in server_options().items():
        shown = Annotated[str | None, typer.Option(option, metavar="URL", help=server.help)]
        name = option.removeprefix("--").replace("-", "_")
        own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=shown))
    root.__signature__ = Signature(own)  # pyright: ignore[reportFunctionMemberAccess]
    root.__annotations__ = {one.name: one.annotation for one in own}
    return root


@cache
def commands(words: str = "") -> TyperGroup:
    """Return the command line with the command or the group of these words alone, or with all commands.

    To load and build all of them takes longer than most of them work, so a process builds those that it needs, once.
    """
    app = typer.Typer(
        name="teamwright",
        help="Run teams of AI agents: declare a team, run it, watch it, kill it, resume it without paying twice.",
        epilog=WHERE_DATA_LIVES,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    groups = {"": app}
    for one, path in (_named_by(words) if words else _all_commands()).items():
        group, _, name = one.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group], no_args_is_help=True, rich_markup_mode=None)
            app.add_typer(groups[group], name=group)
        command = resolve_name(path)
        if isinstance(command, typer.Typer):
            groups[group].add_typer(command, name=name)
        else:
            groups[group].command(name)(command)
    _keep_examples(app)
    app.callback()(_root_with_servers())
    return cast("TyperGroup", typer.main.get_command(app))


def _all_commands() -> dict[str, str]:
    """The commands of the core and of the wings that are there."""
    return {**COMMANDS, **{words: path for wing in find_wings() for words, path in wing.commands.items()}}


def _named_by(words: str) -> dict[str, str]:
    """The command of these words, or the commands of a group."""
    return {one: path for one, path in _all_commands().items() if f"{one} ".startswith(f"{words} ")}


def _command_words(given: Sequence[str]) -> str:
    """Return the words at the beginning of the arguments that name a command or a group; none if they name neither."""
    for count in (2, 1):
        words = " ".join(given[:count])
        if len(given) >= count and _named_by(words):
            return words
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error becomes a message on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with _named_servers(given), json_lines() if wants_json_lines(given) else nullcontext():
        code = _run(given)
    if arguments is None:
        _exit_at_once(code)
    return code


def _run(given: Sequence[str]) -> int:
    def call() -> int | None:
        returned: object = commands(_command_words(given)).main(
            args=given, prog_name="teamwright", standalone_mode=False
        )
        return returned if isinstance(returned, int) else 0

    return guarded(call, as_json="--json" in given and not wants_json_lines(given))


@contextmanager
def _named_servers(given: list[str]) -> Generator[None]:
    """Take options such as `--journal URL` from the arguments, wherever they stand, and use them within the block."""
    servers = server_options()
    before = {server.variable: os.environ.get(server.variable) for server in servers.values()}
    for option, server in servers.items():
        if (value := take_option(given, option)) is not None:
            os.environ[server.variable] = value
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


def _exit_at_once(code: int) -> None:
    """Exit past a thread that can't be stopped, for which the interpreter would wait, and after Ctrl-C.

    Where Ctrl-C came within `exec`, as in each import of a dataclass, `python -m` would end as if it were not caught.
    """
    main_thread = threading.main_thread()
    is_stuck = any(thread is not main_thread and not thread.daemon for thread in threading.enumerate())
    if is_stuck or code == INTERRUPTED:
        flush_all()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
