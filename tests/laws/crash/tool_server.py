"""The MCP server of the crash matrix, run as a program; its tool is one request to the counting server."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.request import Request, urlopen

from tests.kit.mcp_stdio import Tool, serve

URL = sys.argv[1]


def weigh(arguments: dict[str, Any], key: str | None) -> str:
    word = arguments["word"]
    body = json.dumps({"name": f"tool-{word}", "prompt": word}).encode()
    request = Request(URL, body, {"Content-Type": "application/json", "Idempotency-Key": str(key)})
    with urlopen(request) as answer:
        return json.loads(answer.read())["text"]


serve("scales", {"weigh": Tool("Weigh a word.", weigh, {"word": "string"})})
