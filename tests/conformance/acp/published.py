"""Runs acplint with the names of the published schema, of which its own differ: a program of the linter's environment.

Its checks stay as they are. What it sends and what it gets is renamed: the blocks of a prompt, kinds of updates,
options and outcomes of permissions, and the type of the version.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from acplint.cli import main  # pyright: ignore[reportMissingImports]
from acplint.transport import AcpTransport  # pyright: ignore[reportMissingImports]


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


class Published(AcpTransport):  # pyright: ignore[reportUntypedBaseClass]
    """The transport, in the words of the published schema."""

    async def send_request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        if method == "session/prompt" and "content" in (params or {}):
            params = {**params, "prompt": params["content"]}
            del params["content"]
        if method == "initialize":
            params = {**params, "protocolVersion": int(params["protocolVersion"])}
        answer = await super().send_request(method, params, request_id)
        result = answer.get("result")
        if isinstance(result, dict) and isinstance(result.get("protocolVersion"), int):
            result["protocolVersion"] = str(result["protocolVersion"])
        return answer

    async def _dispatch(self, message: Any) -> None:
        update = (message.get("params") or {}).get("update")
        if isinstance(update, dict):
            update["sessionUpdate"] = camel(update["sessionUpdate"])
            if update["sessionUpdate"] == "plan":
                update["plan"] = {"entries": update["entries"]}
        for option in (message.get("params") or {}).get("options", ()):
            option["id"] = option["optionId"]
        await super()._dispatch(message)

    async def send_response(self, request_id: Any, result: Any) -> None:
        if isinstance(result, dict) and "optionId" in (result.get("outcome") or {}):
            result = {"outcome": {"outcome": "selected", "optionId": result["outcome"]["optionId"]}}
        await super().send_response(request_id, result)


if __name__ == "__main__":
    sys.modules["acplint.runner"].AcpTransport = Published  # pyright: ignore[reportAttributeAccessIssue]
    sys.exit(main())
