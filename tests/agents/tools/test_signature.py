"""Signatures of function tools: how a model sees the parameters, and what is hidden from it."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from teamwright.agents.tools.protocol import ToolContext
from teamwright.agents.tools.python import PythonTool, tool
from teamwright.agents.tools.signature import read_signature
from teamwright.errors import UsageError


def order(
    ctx: ToolContext,
    article: str,
    count: Annotated[int, "how many, at most ten"] = 1,
    colour: Annotated[str, Field(description="by name")] = "red",
    express: bool = False,
) -> str:
    """Order an article.

    It arrives within a week.

    Args:
        article: The number in the catalogue.
        count: The annotation has another text.
        express: Deliver on the next day,
            for a fee.
        ctx: Nothing for a model.
    """
    return article


def test_parameters_are_described_by_the_docstring_and_by_their_annotations() -> None:
    definition = PythonTool(order).definition
    assert definition.description == "Order an article.\n\nIt arrives within a week."
    properties = definition.parameters["properties"]
    assert isinstance(properties, dict)
    assert {name: one["description"] for name, one in properties.items() if isinstance(one, dict)} == {
        "article": "The number in the catalogue.",
        "count": "how many, at most ten",
        "colour": "by name",
        "express": "Deliver on the next day, for a fee.",
    }


class Database: ...


class Client: ...


def test_the_context_may_have_any_name_and_says_what_it_needs() -> None:
    def one(call: ToolContext[Database], article: str) -> None: ...
    def two(article: str, ctx: ToolContext[Database | Client] | None = None) -> None: ...
    def three(ctx: ToolContext) -> None: ...

    assert [read_signature(f, "f").contexts for f in (one, two, three)] == [("call",), ("ctx",), ("ctx",)]
    assert [read_signature(f, "f").names for f in (one, two, three)] == [("article",), ("article",), ()]
    assert [read_signature(f, "f").needs for f in (one, two, three)] == [(Database,), (Database, Client), ()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": 0}, "timeout: must be more than 0"),
        ({"retry": -1}, "retry: must be at least 0"),
        ({"once": ["articel"]}, "no parameter 'articel' for `once`; did you mean 'article'"),
        ({"once": 3}, "once: expects a list, found the number 3; write  once="),
        ({"once": "article"}, "once: expects a list, found the text 'article'; write  once="),
        ({"once": []}, "'once' names no parameter, so it identifies no action; name the parameters"),
        ({"once": ["article"], "retry": 2}, "add  check  or  idempotent: true"),
        ({"idempotent": False, "retry": 2}, "add  check  or  idempotent: true"),
        ({"name": "no name"}, "'no name' is no name"),
        ({"check": lambda colours: None}, "takes 'colours', which is no parameter of the tool; did you mean 'colour'"),
    ],
)
def test_wrong_settings_are_refused_when_the_tool_is_made(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tool(order, **settings)  # pyright: ignore[reportArgumentType]
