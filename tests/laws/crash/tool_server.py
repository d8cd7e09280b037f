"""The MCP server of the crash matrix, run as a program; its tool is one request to the counting server.

It speaks the protocol by hand, because importing the library would take a second for each driver that is killed.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.request import Request, urlopen

META_KEY = "teamwright/idempotency-key"
TOOL = {
    "name": "weigh",
    "description": "Weigh a word.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}


def result_of(method: str, params: dict[str, Any], url: str) -> dict[str, Any] | None:
    """The result of a request; `None` if the server does not know its method."""
    match method:
        case "initialize":
            info = {"name": "scales", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            word = params["arguments"]["word"]
            text = post(url, f"tool-{word}", word, params["_meta"][META_KEY])
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case _:
            return None


def post(url: str, name: str, prompt: str, key: str) -> str:
    """Send one request to the counting server."""
    body = json.dumps({"name": name, "prompt": prompt}).encode()
    request = Request(url, body, {"Content-Type": "application/json", "Idempotency-Key": key})
    with urlopen(request) as answer:
        return json.loads(answer.read())["text"]


def serve(url: str) -> None:
    """Answer requests until the input closes."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = result_of(request["method"], request.get("params", {}), url)
        unknown = {"error": {"code": -32601, "message": "Method not found"}}
        answer = {"jsonrpc": "2.0", "id": request["id"], **(unknown if result is None else {"result": result})}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
