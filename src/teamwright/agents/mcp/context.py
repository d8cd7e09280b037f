"""Resources and prompts of MCP servers as text for an agent's instructions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.errors import ToolError
from teamwright.values.events.agent import McpMethod
from teamwright.values.specs.manifest import McpTool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ContentBlock


@dataclass(frozen=True, slots=True)
class ContextRead:
    """One text to read from a server: `title` introduces it to the model, `request` identifies it in the record.

    `method` and `parameters` are what the server is sent, for readers of the record.
    """

    title: str
    request: str
    method: McpMethod
    parameters: Mapping[str, JsonValue]
    send: Callable[[Client], Awaitable[str]]


def context_reads(settings: McpTool) -> list[ContextRead]:
    """Return the reads that a server's settings declare, in the order of the declaration."""
    reads = [
        ContextRead(f"Resource {uri}", f"resource {uri}", "resources/read", {"uri": uri}, partial(_read_resource, uri))
        for uri in settings.resources
    ]
    for name, arguments in settings.prompts.items():
        request = f"prompt {name} {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"
        parameters: dict[str, JsonValue] = {"name": name}
        if arguments:
            parameters["arguments"] = dict(arguments)
        read = partial(_get_prompt, name, arguments)
        reads.append(ContextRead(f"Prompt {name}", request, "prompts/get", parameters, read))
    return reads


async def _read_resource(uri: str, client: Client) -> str:
    from mcp.types import TextResourceContents

    found = (await client.read_resource(uri, cache_mode="bypass")).contents
    if binary := next((one for one in found if not isinstance(one, TextResourceContents)), None):
        raise ToolError(f"the resource {uri!r} is no text, but {binary.mime_type or 'binary'}")
    return "\n".join(one.text for one in found if isinstance(one, TextResourceContents))


async def _get_prompt(name: str, arguments: Mapping[str, str], client: Client) -> str:
    messages = (await client.get_prompt(name, dict(arguments))).messages
    return "\n\n".join(_texts(name, (one.content for one in messages)))


def _texts(name: str, blocks: Iterable[ContentBlock]) -> Iterable[str]:
    from mcp.types import EmbeddedResource, TextContent, TextResourceContents

    for block in blocks:
        match block:
            case TextContent(text=text) | EmbeddedResource(resource=TextResourceContents(text=text)):
                yield text
            case _:
                raise ToolError(f"the prompt {name!r} contains {block.type!r}, which is no text")
