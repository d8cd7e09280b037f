"""A coding agent of the library of the protocol: it plans, asks, writes a file and says what it has used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, run_agent
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    Cost,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PlanEntry,
    PromptResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

OPTIONS = [
    PermissionOption(option_id="always", name="Always", kind="allow_always"),
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Coder:
    """The agent."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.cwd = ""
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_capabilities=AgentCapabilities())

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        self.cwd = cwd
        return NewSessionResponse(session_id="session")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        client, text = self.client, TextContentBlock
        assert client is not None
        if prompt[-1].text == "wait":
            await self.cancelled.wait()
            return PromptResponse(stop_reason="cancelled")

        async def tell(update: Any) -> None:
            await client.session_update(session_id=session_id, update=update)

        entries = [PlanEntry(content="write it", priority="high", status="in_progress")]
        await tell(AgentPlanUpdate(session_update="plan", entries=entries))
        await tell(AgentThoughtChunk(session_update="agent_thought_chunk", content=text(type="text", text="hm")))
        await tell(ToolCallStart(session_update="tool_call", tool_call_id="1", title="Write a.py", kind="edit"))
        asked = ToolCallUpdate(tool_call_id="1", title="Write a.py", kind="edit", raw_input={"path": "a.py"})
        chosen = await client.request_permission(session_id=session_id, tool_call=asked, options=OPTIONS)
        option = getattr(chosen.outcome, "option_id", "none")
        if option == "yes":
            path = str(Path(self.cwd, "a.py"))
            before = await client.read_text_file(session_id=session_id, path=path, line=1, limit=1)
            await client.write_text_file(session_id=session_id, path=path, content=f"{before.content}# seen\n")
        done = ToolCallProgress(session_update="tool_call_update", tool_call_id="1", status="completed")
        await tell(done)
        cost = UsageUpdate(session_update="usage_update", used=5, size=9, cost=Cost(amount=0.01, currency="USD"))
        await tell(cost)
        said = text(type="text", text=f"It was {option}.")
        await tell(AgentMessageChunk(session_update="agent_message_chunk", content=said))
        used = Usage(total_tokens=30, input_tokens=10, output_tokens=5, cached_read_tokens=12, thought_tokens=3)
        return PromptResponse(stop_reason="end_turn", usage=used)


if __name__ == "__main__":
    asyncio.run(run_agent(Coder()))  # pyright: ignore[reportArgumentType] - it does not do all that one may
