"""An MCP server on standard streams, for programs that tests start often: it speaks the protocol by hand.

Importing the library takes a second for each process. Each call runs in a thread of its own, and the process ends with
its input, whatever its calls do.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

META_KEY = "teamwright/idempotency-key"
OUTPUT = threading.Lock()
DECLARED: dict[str, Any] = {}
"""What the client has declared."""


class Tool(NamedTuple):
    """A tool: `call` gets the arguments and the idempotency key, and returns a text or other JSON."""

    description: str
    call: Callable[[dict[str, Any], str | None], Any]
    parameters: Mapping[str, str] = {}
    """The JSON type of each required parameter."""

    def definition(self, name: str) -> dict[str, Any]:
        properties = {parameter: {"type": kind} for parameter, kind in self.parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return {"name": name, "description": self.description, "inputSchema": schema}


def serve(name: str, tools: Mapping[str, Tool]) -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            threading.Thread(target=_answer, args=(name, tools, request), daemon=True).start()
    os._exit(0)


def _answer(name: str, tools: Mapping[str, Tool], request: dict[str, Any]) -> None:
    result = _result(name, tools, request["method"], request.get("params", {}))
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    answer = {"jsonrpc": "2.0", "id": request["id"], **(unknown if result is None else {"result": result})}
    with OUTPUT:
        print(json.dumps(answer), flush=True)


def _result(name: str, tools: Mapping[str, Tool], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; `None` if the server does not know its method."""
    match method:
        case "initialize":
            DECLARED.update(params["capabilities"])
            info = {"name": name, "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [tool.definition(each) for each, tool in tools.items()]}
        case "tools/call":
            return _call(tools[params["name"]], params)
        case _:
            return None


def _call(tool: Tool, params: dict[str, Any]) -> dict[str, Any]:
    try:
        value = tool.call(params.get("arguments", {}), params.get("_meta", {}).get(META_KEY))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}], "isError": False}
    return {"content": [], "structuredContent": value if isinstance(value, dict) else {"result": value}}
