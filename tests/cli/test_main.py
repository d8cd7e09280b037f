from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup

from teamwright.cli import main, validate
from tests.kit.terminal import Call

HEAVY = ("pydantic_ai", "rich", "yaml", "sqlite3", "asyncio", "pydantic", "anyio", "jsonschema")


def imported_by(*arguments: str) -> set[str]:
    program = "import sys; from teamwright.cli.main import main; code = main(sys.argv[1:]); "
    program += "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    assert imported_by("--help").isdisjoint(HEAVY)


def test_listing_runs_imports_neither_models_nor_manifests() -> None:
    assert imported_by("runs", "list", "--json").isdisjoint({"pydantic_ai", "rich", "yaml"})


def test_help_names_every_command(call: Call) -> None:
    done = call("--help")
    assert done.code == 0
    for command in ("run", "validate", "schema", "new", "doctor", "runs", "memory"):
        assert f"\n  {command} " in done.out


def test_a_group_without_a_command_shows_its_help_and_is_bad_usage(call: Call) -> None:
    done = call("runs")
    assert done.code == 2
    assert "Commands:" in done.err
    assert done.out == ""


@pytest.mark.experts
@pytest.mark.server
def test_the_program_alone_shows_the_five_commands_of_the_first_day(call: Call) -> None:
    done = call()
    assert (done.code, done.err) == (0, "")
    shown = [line.split()[1] for line in done.out.splitlines() if line.startswith("  teamwright ")]
    assert shown == ["new", "run", "ask", "serve", "runs"]
    assert "teamwright --help" in done.out


def leaves(group: TyperGroup, *words: str) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from leaves(command, *words, name)
        elif isinstance(command, TyperCommand):
            yield (*words, name), command


def test_every_command_has_examples_of_itself_that_are_understood() -> None:
    everything = main.commands()
    for words, command in leaves(everything):
        name = " ".join(words).replace("serve serve", "serve")
        _, _, examples = (command.help or "").partition("\b\nExample")
        lines = [line.strip() for line in examples.splitlines()[1:]]
        assert lines, name
        for line in lines:
            assert line.startswith(f"teamwright {name}"), line
            given = shlex.split(line.removeprefix(f"teamwright {name}"))
            command.make_context(name, given)


def command_names(group: TyperGroup, *words: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*words, name)
        if isinstance(command, TyperGroup):
            yield from command_names(command, *words, name)


def test_a_command_that_is_built_alone_is_the_same_as_among_all() -> None:
    everything = main.commands()
    names = list(command_names(everything))
    assert len(names) > 40
    for words in names:
        found = main._command_words([*words, "--help"])
        assert found in (" ".join(words), words[0])
        whole, alone = everything, main.commands(found)
        for word in words:
            assert isinstance(whole, TyperGroup)
            assert isinstance(alone, TyperGroup)
            whole, alone = whole.commands[word], alone.commands[word]
        assert alone.help == whole.help
        assert [(one.name, one.opts, one.default) for one in alone.params] == [
            (one.name, one.opts, one.default) for one in whole.params
        ]
        if isinstance(whole, TyperGroup):
            assert isinstance(alone, TyperGroup)
            assert list(alone.commands) == list(whole.commands)


def test_the_version_is_shown(call: Call) -> None:
    assert call("--version").out.startswith("teamwright ")


@pytest.mark.parametrize(
    "arguments", [["--bogus"], ["runz"], ["run", "--bogus"], ["runs", "show"], ["run", "a", "b", "c"]]
)
def test_bad_arguments_are_a_line_and_exit_code_2(call: Call, arguments: list[str]) -> None:
    done = call(*arguments)
    assert done.code == 2
    assert done.err.startswith("teamwright: ")
    assert "--help" in done.err
    assert done.out == ""


def test_bad_arguments_are_a_document_with_json(call: Call) -> None:
    done = call("runs", "list", "--bogus", "--json")
    assert done.code == 2
    assert done.json["error"]["kind"] == "UsageError"
    assert "--bogus" in done.json["error"]["message"]


def broken(*_: object) -> None:
    raise ZeroDivisionError("somewhere deep\nin the code")


def test_an_unexpected_error_is_one_line_that_names_the_switch(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "check_out", broken)
    done = call("schema")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "ZeroDivisionError" in done.err
    assert "TEAMWRIGHT_DEBUG=1" in done.err


def test_the_switch_shows_the_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "check_out", broken)
    monkeypatch.setenv("TEAMWRIGHT_DEBUG", "1")
    done = call("schema")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "in broken" in done.err
    assert "ZeroDivisionError: somewhere deep" in done.err


def test_a_damaged_journal_is_reported_clearly(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path))
    (tmp_path / "journal.db").write_bytes(b"not a database at all, but long enough to look like one" * 100)
    done = call("runs", "list")
    assert done.code == 1
    assert "journal.db" in done.err
    assert "Traceback" not in done.err


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(call: Call) -> None:
    done = call("rnu")
    assert (done.code, done.err) == (
        2,
        "teamwright: No such command 'rnu'. Did you mean 'run'? (see  teamwright --help)\n",
    )
