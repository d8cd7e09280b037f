"""An image and a text attached to a task, and an image that a tool draws: what the model receives."""

import asyncio
import struct
import zlib

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent
from teamwright.agents import Attachment


def square(size: int) -> bytes:
    """Return a grey square as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\x80" * size for _ in range(size)))
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def enlarge() -> Attachment:
    """Enlarge the picture."""
    return Attachment(square(64), "large.png")


def look(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model that sees: name every file that it received."""
    seen: list[str] = []
    for message in messages:
        for part in message.parts:
            for item in part.content if isinstance(part, UserPromptPart) else ():
                if isinstance(item, BinaryContent):
                    width, height = struct.unpack(">II", item.data[16:24])
                    seen.append(f"{item.media_type} of {width}x{height}")
                elif isinstance(item, str) and item.startswith("# file notes.md"):
                    seen.append(repr(item))
    print("The model sees", ", ".join(seen))
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("enlarge", {})])
    return ModelResponse(parts=[TextPart("A grey square.")])


async def main() -> None:
    agent = ModelAgent("looker", model=FunctionModel(look), tools=[enlarge])
    photo, notes = Attachment(square(16), "photo.png"), Attachment(b"Grey.", "notes.md")
    async with Engine("memory") as engine:
        result = await engine.run(agent, "What is it?", attachments=[photo, notes])
    print(result.output)
    for one in result.attachments:
        print(f"{one.name}: {one.media_type}")


asyncio.run(main())
