from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Literal

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field, JsonValue

from teamwright.agents.tools.built_in import final_response
from teamwright.agents.tools.registry import ToolLike
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import DuplicateName, InvalidName, LimitReached, ToolError, UsageError
from teamwright.values.specs.tools import TERMINATE, FunctionTool
from teamwright.values.turns.messages import digest
from tests.agents.recording import Recording


def search(query: str, limit: Annotated[int, Field(ge=1, description="how many")] = 3) -> list[str]:
    """Search the archive."""
    return [query] * limit


class Point(BaseModel):
    x: int


async def call(tools: Sequence[ToolLike], name: str, arguments: dict[str, JsonValue], key: str = "k") -> JsonValue:
    async with Toolbox(tools).open(Recording().ctx) as opened:
        return await opened.call_recorded(name, arguments, key=key)


async def test_a_function_is_offered_by_its_signature_and_docstring() -> None:
    async with Toolbox([search]).open(Recording().ctx) as tools:
        (offer,) = tools.definitions
    assert (offer.name, offer.description) == ("search", "Search the archive.")
    assert offer.parameters["required"] == ["query"]
    properties = offer.parameters["properties"]
    assert isinstance(properties, dict)
    assert properties["limit"] == {
        "default": 3, "description": "how many", "minimum": 1, "title": "Limit", "type": "integer",
    }  # fmt: skip


async def test_a_function_gets_its_arguments_as_it_declares_them() -> None:
    def double(point: Point, unit: Literal["m", "km"] = "m") -> Point:
        return Point(x=point.x * 2)

    assert await call([double], "double", {"point": {"x": 4}}) == {"x": 8}


async def test_names_that_mean_something_to_pydantic_are_fine_as_parameters() -> None:
    def odd(json: str, schema: str, _model: str = "m", **more: int) -> list[object]:
        return [json, schema, _model, more]

    assert await call([odd], "odd", {"json": "a", "schema": "b", "extra": 3}) == ["a", "b", "m", {"extra": 3}]


async def test_functions_may_be_async_partial_or_objects() -> None:
    async def slow(text: str) -> str:
        await anyio.lowlevel.checkpoint()
        return text.upper()

    class Caller:
        async def __call__(self, text: str) -> str:
            return text + "!"

    assert await call([slow], "slow", {"text": "a"}) == "A"
    assert await call([("half", functools.partial(search, limit=1))], "half", {"query": "q"}) == ["q"]
    assert await call([Caller()], "Caller", {"text": "a"}) == "a!"


async def test_a_synchronous_function_runs_beside_the_event_loop() -> None:
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await call([where], "where", {}) is False


async def test_the_idempotency_key_is_filled_in_and_hidden() -> None:
    def pay(amount: int, *, idempotency_key: str) -> list[object]:
        return [amount, idempotency_key]

    assert await call([pay], "pay", {"amount": 1}, key="run/tool-1") == [1, digest("run", "run/tool-1")]
    async with Toolbox([pay]).open(Recording().ctx) as tools:
        assert "idempotency_key" not in json.dumps(tools.definitions[0].parameters)
        with pytest.raises(ToolError, match="idempotency_key"):
            tools.validate("pay", {"amount": 1, "idempotency_key": "forged"})


@pytest.mark.parametrize("arguments", [{}, {"query": 3}, {"query": "q", "limit": 0}, {"query": "q", "more": 1}])
async def test_arguments_that_do_not_fit_are_reported(arguments: dict[str, JsonValue]) -> None:
    with pytest.raises(ToolError, match="do not fit the tool 'search'"):
        await call([search], "search", arguments)


async def test_an_unknown_tool_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(ToolError, match="There is no tool 'serch' here; did you mean 'search'"):
        await call([search], "serch", {})


async def test_a_failure_is_short_and_names_the_tool() -> None:
    def broken() -> None:
        raise OSError("x" * 5000)

    def odd() -> object:
        return object()

    with pytest.raises(ToolError, match="The tool 'broken' failed: OSError: x") as caught:
        await call([broken], "broken", {})
    assert len(str(caught.value)) < 600
    with pytest.raises(ToolError, match="'odd' returned something that is not JSON"):
        await call([odd], "odd", {})


async def test_what_the_engine_raises_inside_a_tool_passes_through() -> None:
    def nested() -> None:
        raise LimitReached("nothing left")

    with pytest.raises(LimitReached):
        await call([nested], "nested", {})


async def test_using_a_tool_is_one_effect_that_is_never_repeated() -> None:
    times: list[int] = []

    def once() -> int:
        times.append(1)
        return len(times)

    record = Recording()
    async with Toolbox([once]).open(record.ctx) as tools:
        assert await tools.call_recorded("once", {}, key="tool-1") == 1
        assert tools.spent.tool_calls == 1
    async with Toolbox([once]).open(record.again().ctx) as tools:
        assert await tools.call_recorded("once", {}, key="tool-1") == 1
    assert times == [1]
    effect = record.effects["tool-1"]
    assert (effect.kind, effect.name, effect.retry and effect.retry.times) == ("tool", "once", 0)


async def test_only_allowed_tools_are_seen_and_used() -> None:
    toolbox = Toolbox([search, "terminate"])
    async with toolbox.open(Recording().ctx, allow=[TERMINATE]) as tools:
        assert [offer.name for offer in tools.definitions] == [TERMINATE]
        with pytest.raises(ToolError, match="There is no tool 'search'"):
            await tools.call_recorded("search", {"query": "q"}, key="k")
    async with toolbox.open(Recording().ctx, allow=[]) as tools:
        assert tools.definitions == []
        assert not tools.may_terminate


async def test_a_function_by_import_path_may_have_its_own_name_and_description() -> None:
    tool = ("total", FunctionTool(function="math:fsum", description="Sum up."))
    async with Toolbox([("upper", FunctionTool(function="string:capwords", description="Big."))]).open(
        Recording().ctx
    ) as tools:
        assert [(offer.name, offer.description) for offer in tools.definitions] == [("upper", "Big.")]
        assert await tools.call_recorded("upper", {"s": "a b"}, key="k") == "A B"
    with pytest.raises(UsageError, match="'total' has the positional parameter"):
        Toolbox([tool])


def test_names_of_tools_are_valid_and_used_once() -> None:
    with pytest.raises(DuplicateName):
        Toolbox([search, search])
    with pytest.raises(DuplicateName):
        Toolbox([("terminate", FunctionTool(function="string:capwords"))])
    with pytest.raises(InvalidName):
        Toolbox([("no name", search)])
    with pytest.raises(UsageError, match="A lambda has no name; give the tool one"):
        Toolbox([lambda: None])


@pytest.mark.parametrize(
    ("arguments", "response"),
    [
        ({"response": "Bye."}, "Bye."),
        ('{"response": "Bye."}', "Bye."),
        ({"response": " "}, None),
        ({"response": 3}, None),
        ({}, None),
        ("[1]", None),
        ("{oh", None),
        (None, None),
    ],
)
def test_the_response_of_terminate_is_read_leniently(arguments: object, response: str | None) -> None:  # R-08
    assert final_response(arguments) == response


def test_tools_are_declared_without_any_heavy_library() -> None:
    program = (
        "import sys; from teamwright.agents.tools.toolbox import Toolbox;"
        "from teamwright.values.specs.tools import McpSpec, McpTool;"
        "Toolbox(['string:capwords', 'terminate', McpSpec(mcp=McpTool(url='http://127.0.0.1:9/mcp'))]);"
        "sys.exit(any(name in sys.modules for name in ('pydantic_ai', 'mcp', 'jsonschema')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
