"""The conformance suite of tool sources: built-in sources pass, and each mistake is reported clearly."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright import Context
from teamwright.agents import McpTool, ToolContext, ToolDefinition, ToolSource
from teamwright.agents.tools.built_in import TerminateSource, WorkspaceSource
from teamwright.agents.tools.files import FilesSource
from teamwright.agents.tools.mcp_source import McpSource
from teamwright.agents.tools.protocol import Arguments
from teamwright.agents.tools.python import PythonTool
from teamwright.testing import ToolSourceConformance, check_tool_source
from teamwright.values.specs.tools import FilesTool
from tests.paths import ROOT

SERVER = ("-S", "-m", "tests.agents.small_arithmetic_server")


def search(query: str, limit: int = 3) -> list[str]:
    """Search the archive."""
    return [query] * limit


async def wait(seconds: float) -> str:
    """Wait a little."""
    await asyncio.sleep(seconds)
    return "waited"


class TestPythonTool(ToolSourceConformance):
    calls = (("search", {"query": "q"}),)

    def make(self) -> ToolSource:
        return PythonTool(search)


class TestAsynchronousPythonTool(ToolSourceConformance):
    calls = (("wait", {"seconds": 0.001}),)

    def make(self) -> ToolSource:
        return PythonTool(wait)


class TestFiles(ToolSourceConformance):
    calls = (
        ("write_file", {"path": "a", "content": "x"}),
        ("read_file", {"path": "a"}),
        ("list_files", {}),
        ("search_files", {"text": "x"}),
    )

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def make(self) -> ToolSource:
        return FilesSource(FilesTool(folder=str(self.root)))


class TestWorkspace(ToolSourceConformance):
    calls = (
        ("write_value", {"name": "n", "value": 1}),
        ("read_value", {"name": "n"}),
        ("list_values", {}),
        ("keep_artifact", {"text": "long", "name": "l"}),
    )

    def make(self) -> ToolSource:
        return WorkspaceSource()


class TestMcp(ToolSourceConformance):
    calls = (("add", {"a": 1, "b": 2}),)

    @pytest.fixture(autouse=True)
    def _notes(self, tmp_path: Path) -> None:
        self.notes = str(tmp_path / "notes")

    def make(self) -> ToolSource:
        variables = {"PYTHONPATH": str(ROOT)}
        settings = McpTool(command=(sys.executable, *SERVER, self.notes), env=variables, tools=("add",))
        return McpSource("arithmetic", settings)


class TestTerminate(ToolSourceConformance):
    def make(self) -> ToolSource:
        return TerminateSource()


SIDES: dict[str, JsonValue] = {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}


class Dice(ToolSource):
    """A source without a fault."""

    name = "dice"

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("roll", "Roll a die.", SIDES)]

    def validate(self, name: str, arguments: Arguments) -> None:
        from teamwright.errors import ToolError

        if "sides" not in arguments:
            raise ToolError("Say how many sides the die has.")

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        return 4


class Nameless(Dice):
    name = "my dice!"


class NotReady(Dice):
    def problems(self) -> Sequence[str]:
        return ["the package 'dice' is not installed"]


class DeclaredAsAnother(Dice):
    spec = "workspace"


class Empty(Dice):
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return []


class Twice(Dice):
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [*await super().definitions(ctx), *await super().definitions(ctx)]


class OtherNames(Dice):
    tool_names = ("throw",)


class Undescribed(Dice):
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("roll", " ", SIDES)]


class NoObject(Dice):
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("roll", "Roll.", {"type": "integer"})]


class NoSchema(Dice):
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("roll", "Roll.", {"type": "object", "properties": {"sides": {"type": "number!"}}})]


class NoJson(Dice):
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        return {4}  # type: ignore[return-value]


class TakesAnything(Dice):
    def validate(self, name: str, arguments: Arguments) -> None:
        pass


class RaisesKeyError(TakesAnything):
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        return arguments["sides"]


class ChangesArguments(Dice):
    async def call(self, name: str, arguments: Any, context: ToolContext) -> JsonValue:
        arguments["sides"] += 1
        return 4


class OffersAnotherEachTime(Dice):
    numbers = itertools.count()

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("roll", f"Roll die {next(self.numbers)}.", SIDES)]


class OneTurnAtATime(Dice):
    opened: str | None = None

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        self.opened = "table"
        try:
            yield self
        finally:
            self.opened = None

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        await asyncio.sleep(0.001 if arguments["sides"] == 6 else 0)
        assert self.opened is not None, "the table is gone"
        self.opened = None
        return 4


class SwallowsErrors(Dice):
    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        try:
            yield self
        except Exception:  # noqa: BLE001
            return


class WrapsErrors(Dice):
    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        try:
            yield self
        except Exception as error:
            raise ExceptionGroup("unhandled", [error]) from error


class LeavesATask(Dice):
    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        self.task = asyncio.create_task(asyncio.sleep(0.2), name="croupier")
        yield self


class SwallowsCancellation(Dice):
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            return 0
        return 4


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Nameless, r"declaration: `name` must be a name: .*'my dice!'"),
        (NotReady, r"declaration: problems\(\) says that its tools can't be called: the package 'dice'"),
        (DeclaredAsAnother, r"declaration: `spec` must be a declaration of this source, .* 'workspace'"),
        (Empty, r"definitions: definitions\(\) is empty"),
        (Twice, r"definitions: Two tools have the same name: \['roll', 'roll'\]"),
        (OtherNames, r"definitions: `tool_names` is \['throw'\], and definitions\(\) has \['roll'\]"),
        (Undescribed, r"definitions: The tool 'roll' has no description"),
        (NoObject, r"definitions: The parameters of 'roll' must be a JSON Schema of the type 'object'"),
        (NoSchema, r"definitions: The parameters of 'roll' are not a JSON Schema: "),
        (NoJson, r"calls: The tool 'roll' returns \{4\}, which is not JSON"),
        (TakesAnything, r"calls: The tool 'roll' accepts a call without its required arguments"),
        (RaisesKeyError, r"calls: Without its arguments the tool 'roll' raises KeyError: raise ToolError in validate"),
        (ChangesArguments, r"calls: The tool 'roll' changes its arguments"),
        (OffersAnotherEachTime, r"replay: Cut after event 1 .* is offered other tools"),
        (OneTurnAtATime, r"turns_at_once: With two turns at once it fails: AssertionError: the table is gone"),
        (SwallowsErrors, r"cleanup: open\(\) swallows the error of a turn"),
        (WrapsErrors, r"cleanup: open\(\) wraps the error of a turn in ExceptionGroup"),
        (LeavesATask, r"cleanup: open\(\) leaves tasks behind: \['croupier'\]"),
        (SwallowsCancellation, r"cancellation: The tool 'roll' swallows cancellation"),
    ],
)
def test_each_mistake_is_reported_clearly(broken: Callable[[], ToolSource], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_tool_source(broken, [("roll", {"sides": 6})])


def test_what_is_right_passes_in_one_call() -> None:
    check_tool_source(Dice, [("roll", {"sides": 6})])
