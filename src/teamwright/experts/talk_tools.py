"""The tools `live`: with them, members of a live team talk to each other.

Docstrings of the public methods of `LiveMethods` and the messages of `ToolError` are part of prompts: changing one
changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.tools.protocol import BuildOptions, NoSettings, ToolContext, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ArtifactNotFound, ToolError, UsageError
from teamwright.values.specs.tools import CustomTool, ToolSpec

LIVE = "live"
NAMES = ("message_team", "ask_colleague", "hand_over", "open_message")


class LiveMethods:
    """The tools' methods, for one call. Their docstrings are the descriptions that a model sees."""

    def __init__(self, ctx: Context, key: str) -> None:
        self._ctx, self._key = ctx, key

    async def message_team(self, text: str, summary: str = "") -> JsonValue:
        """Tell all colleagues something that they need to know. They read the summary, and can open the whole text.

        Args:
            text: the whole text
            summary: one or two sentences; by default the beginning of the text
        """
        if not text.strip():
            raise ToolError("The message is empty; write what your colleagues need to know.")
        with _refused():
            await self._ctx.message(text, key=self._key, summary=summary)
        return {"sent": True}

    async def ask_colleague(self, name: str, question: str) -> JsonValue:
        """Ask one colleague for help. End your turn after this call: you get the answer in your next one.

        Args:
            name: the name of the colleague
            question: what you need to know, with all that is needed to answer it
        """
        if not question.strip():
            raise ToolError("The question is empty; write what you need to know.")
        with _refused():
            await self._ctx.ask_member(name, question, key=self._key)
        return {"asked": name}

    async def hand_over(self, name: str, note: str) -> JsonValue:
        """Hand your part of the work over to a colleague who is better suited for it, and end your turn.

        Args:
            name: the name of the colleague
            note: what is done, and what remains to be done
        """
        with _refused():
            await self._ctx.ask_member(name, note, key=self._key, hand_over=True)
        return {"handed_over_to": name}

    async def open_message(self, hash: str) -> JsonValue:
        """Open the whole text of a message, by the pointer `artifact://…` in it."""
        try:
            content = await self._ctx.workspace.open(hash)
        except ArtifactNotFound as error:
            raise ToolError(f"{error}.") from error
        if isinstance(content, bytes):
            raise ToolError(f"What is kept under {hash!r} is no message.")
        return content


@contextmanager
def _refused() -> Generator[None]:
    """Let a model read why no one would hear it."""
    try:
        yield
    except UsageError as error:
        raise ToolError(str(error)) from error


class LiveSource(MethodSource):
    """The `live` tools of one agent."""

    name = kind = LIVE
    tool_names = NAMES
    talks = True
    methods = LiveMethods

    def __init__(self, spec: str | ToolSpec | None = None, ctx: Context | None = None) -> None:
        self.spec = CustomTool.model_validate({LIVE: {}}) if spec is None else spec
        self._ctx = ctx

    def bind(self, context: ToolContext) -> LiveMethods:
        """Create the methods for one call."""
        if self._ctx is None:
            raise ToolError("Colleagues are reached within a turn alone.")
        return LiveMethods(self._ctx, context.key)

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        """Bind the context of the turn."""
        yield LiveSource(self.spec, ctx)


class LiveKind(ToolKind[NoSettings]):
    """`live`, which has no settings."""

    name = LIVE
    model = NoSettings
    talks = True

    def build(self, settings: NoSettings, options: BuildOptions) -> ToolSource:
        """Create the source."""
        return LiveSource(options.spec)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tools."""
        return [LIVE, *NAMES]
