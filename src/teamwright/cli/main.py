"""The command line: one file per command or group, each of which imports what it needs when it is called.

Help must stay fast, so nothing here or at the top of a command's file may import the engine, pydantic or Rich.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cache
from inspect import Parameter, Signature, getdoc, signature
from pkgutil import resolve_name
from typing import Annotated

import typer

from teamwright.cli import chat, doctor, memory, new, plan, run, show, test, validate
from teamwright.cli.entry import server_options, take_option
from teamwright.cli.runs import (
    answer,
    conversations,
    delete,
    diff,
    export,
    kpi,
    list as run_list,
    logs,
    resume,
    show as run_show,
    steer,
)
from teamwright.cli.terminal.errors import guarded
from teamwright.cli.terminal.options import with_options
from teamwright.cli.terminal.output import flush_all, json_lines, wants_json_lines, write_result
from teamwright.wings import find_wings

_build_commands = cache(typer.main.get_command)
"""To build all commands takes longer than most of them, so a process builds those that it needs, once."""

EXAMPLES = re.compile(r"\n\n(Examples?:\n)")
"""The beginning of the last paragraph of a command's help."""
FIRST_DAY = {
    "new my-team": "create a team that runs offline, and needs no key",
    'run my-team "…"': "run it; a run that was killed resumes without paying twice",
}
LAST_OF_FIRST_DAY = {"runs show last": "explain the last run; `runs list` has them all"}

app = typer.Typer(
    name="teamwright",
    help="Run teams of AI agents: declare a team, run it, watch it, kill it, resume it without paying twice.",
    epilog="Data lives in TEAMWRIGHT_HOME, by default the platform's data folder. TEAMWRIGHT_DEBUG=1 shows tracebacks.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
runs = typer.Typer(
    help="Inspect, resume, fork and cancel runs.\n\nRUN is a run's id, a unique prefix of it, or `last`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("run")(with_options(run.run, "run_options"))
app.command("chat")(chat.chat)
app.command("show")(show.show)
app.command("plan")(plan.plan)
app.command("validate")(validate.validate)
app.command("schema")(validate.schema)
app.command("test")(test.replay_cases)
app.command("new")(new.new)
app.command("doctor")(doctor.doctor)
app.add_typer(runs, name="runs")
app.command("memory")(memory.memory)

runs.command("list")(run_list.list_runs)
runs.command("show")(run_show.show)
runs.command("logs")(logs.logs)
runs.command("conversations")(conversations.conversations)
runs.command("diff")(diff.diff)
runs.command("kpi")(kpi.kpi)
runs.command("resume")(resume.resume)
runs.command("fork")(resume.fork)
runs.command("answer")(answer.answer)
runs.command("steer")(steer.steer)
runs.command("cancel")(steer.cancel)
runs.command("export")(export.export)
runs.command("apply")(diff.apply)
runs.command("check")(test.check)
runs.command("delete")(delete.delete)


def _add_wings() -> None:
    """Add the commands that wings bring, below the group that they name or at the top."""
    groups = {"runs": runs}
    for words, path in ((words, path) for wing in find_wings() for words, path in wing.commands.items()):
        group, _, name = words.rpartition(" ")
        parent, command = groups[group] if group else app, resolve_name(path)
        if isinstance(command, typer.Typer):
            parent.add_typer(command, name=name)
        else:
            parent.command(name)(command)


_add_wings()


def _keep_examples(group: typer.Typer) -> None:
    """Keep the lines of examples in the help of commands as they are; other paragraphs are wrapped."""
    for one in group.registered_commands:
        help_text = getdoc(one.callback) or ""
        one.help = EXAMPLES.sub(lambda found: f"\n\n\b\n{found[1]}", help_text)
    for one in group.registered_groups:
        if one.typer_instance is not None:
            _keep_examples(one.typer_instance)


_keep_examples(app)


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


def _add_root() -> None:
    """Add the options before any command; those of servers are listed there, and are taken wherever they stand."""
    own = [one for one in signature(root, eval_str=True).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    for option, server in server_options().items():
        shown = Annotated[str | None, typer.Option(option, metavar="URL", help=server.help)]
        name = option.removeprefix("--").replace("-", "_")
        own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=shown))
    root.__signature__ = Signature(own)  # pyright: ignore[reportFunctionMemberAccess]
    root.__annotations__ = {one.name: one.annotation for one in own}
    app.callback()(root)


_add_root()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error becomes a message on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with _named_servers(given), json_lines() if wants_json_lines(given) else nullcontext():
        code = _run(given)
    if arguments is None:
        _exit_past_stuck_threads(code)
    return code


def _run(given: Sequence[str]) -> int:
    def call() -> int | None:
        commands = _build_commands(_app_with(*_command_words(app, given)))
        returned: object = commands.main(args=given, prog_name="teamwright", standalone_mode=False)
        return returned if isinstance(returned, int) else 0

    return guarded(call, as_json="--json" in given and not wants_json_lines(given))


def _command_words(group: typer.Typer, given: Sequence[str]) -> tuple[str, ...]:
    """Return the words at the beginning of the arguments that name a command, a group, or a command in a group."""
    word = given[0] if given else ""
    if any(one.name == word for one in group.registered_commands):
        return (word,)
    found = (one.typer_instance for one in group.registered_groups if one.name == word)
    below = next(found, None)
    return () if below is None else (word, *_command_words(below, given[1:]))


@cache
def _app_with(*words: str) -> typer.Typer:
    """Return the app with the command of these words alone, or with all commands where there are none."""
    return _only(app, *words)


def _only(group: typer.Typer, word: str = "", *more: str) -> typer.Typer:
    """Return a group with the command or the group of this name alone; the same group without a name."""
    if not word:
        return group
    only = copy(group)
    only.registered_commands = [one for one in group.registered_commands if one.name == word]
    only.registered_groups = [copy(one) for one in group.registered_groups if one.name == word]
    for one in only.registered_groups:
        assert one.typer_instance is not None
        one.typer_instance = _only(one.typer_instance, *more)
    return only


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


def _exit_past_stuck_threads(code: int) -> None:
    """Exit at once if a thread can't be stopped, because the interpreter would wait for it."""
    main_thread = threading.main_thread()
    if any(thread is not main_thread and not thread.daemon for thread in threading.enumerate()):
        flush_all()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
