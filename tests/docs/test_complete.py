"""Every field, command, option, public name and environment variable is documented."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from teamwright.agents.scripted import Rule
from teamwright.cli.entry import server_options
from teamwright.cli.main import commands, first_day
from teamwright.errors import AgentError
from teamwright.history.event_wording import ERROR_WORDS
from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from teamwright.values.limits import Pace
from teamwright.values.specs.manifest import AgentSpec, TeamSpec
from teamwright.values.specs.models import DeclaredModel, ServerModel
from teamwright.values.turns.results import RunResult, RunSummary
from teamwright.values.usage_and_prices import Usage
from teamwright.values.value import Record
from tests.docs.pages import PAGES, ROOT

SUMMARY = [name for name in RunSummary.__struct_fields__ if name != "since"]  # which JSON does not have

ELSEWHERE = {"--help", "--replay", "--require-hashes", "--case", "--seeds", "--share"}
"""Of every command, or of programs that prose does not name with them: the fuzzer, pip, the benchmark of budgets."""
GUIDES = [one for one in PAGES if one.parent.name not in {"decisions", "contributing"}]
FENCE = re.compile(r"^(?:<!-- skip[^\n]*\n)?```.*?^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def fields(kind: type[Record]) -> tuple[str, ...]:
    return kind.__struct_fields__


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("reference/manifest.md", [*AgentSpec.model_fields, *TeamSpec.model_fields, *Pace.model_fields]),
        ("teams/testing.md", [field.alias or name for name, field in Rule.model_fields.items()]),
        (
            "reference/commands.md",
            [*RunResult.__struct_fields__, *SUMMARY, *Usage.__struct_fields__, "total_tokens"],
        ),
        ("teams/strategies.md", list(BUILT_IN_STRATEGIES)),
        ("reference/python.md", import_module("teamwright").__all__),
    ],
)
def test_every_name_is_on_its_page(name: str, fields: list[str]) -> None:
    text = page(name)
    assert not [field for field in fields if f"`{field}`" not in text]


def test_one_table_has_every_kind_of_failure_and_says_which_are_retried() -> None:
    table = page("reference/failures.md").partition("## Kinds of failures")[2].partition("\n\n")[2].partition("\n\n")[0]
    retried = {
        kind: cells[-1].strip() == "yes"
        for row in table.splitlines()[2:]
        for cells in [row.strip("|").split("|")]
        for kind in re.findall(r"`(\w+)`", cells[0])
    }
    assert retried.keys() == ERROR_WORDS.keys()
    raised = {error.kind: error.retryable for error in subclasses(AgentError)}
    assert raised.items() <= retried.items()


def subclasses(error: type[AgentError]) -> list[type[AgentError]]:
    """Return an error of the package and those below it."""
    found = [error] if error.__module__ == AgentError.__module__ else []
    return [*found, *(one for child in error.__subclasses__() for one in subclasses(child))]


def test_every_field_of_a_server_is_documented() -> None:
    own = [name for name in ServerModel.model_fields if name not in DeclaredModel.model_fields]
    shared = [name for name in DeclaredModel.model_fields if name not in Pace.model_fields]
    assert "{" + ", ".join([*own, *shared]) + "}" in page("reference/manifest.md")


def test_every_command_is_documented() -> None:
    text = page("reference/commands.md")
    missing = [path for path in command_paths(commands(), "teamwright") if f"`{path}" not in text]
    assert not missing


def command_paths(command: object, path: str) -> list[str]:
    """Return the full names of all commands below one."""
    inner: dict[str, object] = getattr(command, "commands", {})
    if not inner:
        return [path]
    shown = [(name, one) for name, one in inner.items() if not getattr(one, "hidden", False)]
    return [found for name, one in shown for found in command_paths(one, f"{path} {name}")]


def test_every_option_of_run_is_documented() -> None:
    command = commands()
    run = getattr(command, "commands")["run"]  # noqa: B009 - a group has them, a command does not
    options = {option for one in run.params for option in one.opts if option.startswith("--")}
    text = page("reference/commands.md")
    assert not [option for option in options - {"--help"} if f"`{option}" not in text]


@pytest.mark.parametrize("file", GUIDES, ids=[str(one.relative_to(ROOT)) for one in GUIDES])
def test_options_that_a_page_names_exist(file: Path) -> None:
    options = options_of(commands(), "teamwright")
    anywhere = set[str]().union(*options.values())
    wrong: list[str] = []
    for code in named_code(file.read_text(encoding="utf-8")):
        line = f"teamwright {code.removeprefix('teamwright ')} "
        command = max((path for path in options if line.startswith(f"{path} ")), key=len)
        known = anywhere if code.startswith("--") else {*options[command], *server_options()}
        if command != "teamwright" or code.startswith(("--", "teamwright ")):
            wrong += [
                code for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code) if option not in known | ELSEWHERE
            ]
    assert not wrong


def named_code(text: str) -> list[str]:
    """Return the code in the prose of a page, and the commands in its blocks that no test runs."""
    not_run = [block for block in FENCE.findall(text) if block.startswith(("<!-- skip", "```text"))]
    shown = [line[2:] for block in not_run for line in block.splitlines() if line.startswith("$ ")]
    return [*re.findall(r"`([^`\n]+)`", FENCE.sub("", text)), *shown]


def options_of(command: object, path: str) -> dict[str, set[str]]:
    """Return the options of all commands from one on, by the full name of each; a group has those of its hidden one."""
    params, inner = getattr(command, "params", ()), getattr(command, "commands", {})
    found = {path: {option for one in params for option in (*one.opts, *one.secondary_opts)}}
    for name, one in inner.items():
        below = options_of(one, path if getattr(one, "hidden", False) else f"{path} {name}")
        found |= {key: found.get(key, set()) | known for key, known in below.items()}
    return found


def test_every_environment_variable_of_ours_is_documented() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    variables = set(re.findall(r"\bTEAMWRIGHT_[A-Z_]+\b", sources))
    assert not [one for one in variables if f"`{one}`" not in page("reference/commands.md")]


def test_the_page_begins_with_the_commands_that_teamwright_alone_shows() -> None:
    shown = re.findall(r"^  teamwright ((?:runs )?\w+)", first_day(), re.MULTILINE)
    listed = re.findall(r"^\$ teamwright ((?:runs )?\w+)", page("reference/commands.md").split("```")[1], re.MULTILINE)
    assert listed == shown
    assert len(shown) == 5
