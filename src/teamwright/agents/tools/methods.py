"""Methods of a class as the tools of one source: each call creates an object and calls one of its methods."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from types import MethodType
from typing import Any

from teamwright.agents.contract.context import Context
from teamwright.agents.functions.threads import run_to_completion
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.protocol import Arguments, ToolDefinition, ToolSource, ToolValue
from teamwright.agents.tools.python import PythonTool


class MethodSource(ToolSource):
    """A source whose tools are the methods `tool_names` of the class `methods`.

    A synchronous method runs in a thread and to completion even if the turn is cancelled: no write outlives its step.
    """

    methods: type[object]

    @abstractmethod
    def bind(self, context: ToolContext) -> object:
        """Create the object whose method one call is."""
        ...

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the definitions of the methods, from their signatures and docstrings."""
        return [_method_tool(self.methods, name).definition for name in self.tool_names or ()]

    def validate(self, name: str, arguments: Arguments) -> None:
        """Validate the arguments against the signature."""
        _method_tool(self.methods, name).validate(name, arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call the method."""
        method = getattr(self.methods, name)

        def work() -> Any:
            return method(self.bind(context), **arguments)

        return await (work() if inspect.iscoroutinefunction(method) else run_to_completion(work))


@cache
def _method_tool(owner: type, name: str) -> PythonTool:
    return PythonTool(MethodType(getattr(owner, name), owner))
