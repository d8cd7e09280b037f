"""The conversation of one turn as its model receives it: the prompt, then responses, tool results and corrections.

The digest and the size of a request come from our own values, never from a library's types, so that a recorded request
matches whatever version of the library would send it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_json

from teamwright.agents.files.media import with_pointers
from teamwright.agents.files.model_request import PlacedFile
from teamwright.agents.model.messages import arguments_text, compact_arguments, reasoning_tokens, text_under_name
from teamwright.agents.model.prompt_cache import add_cache_points
from teamwright.values.limits.reply import text_size
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Turn

YOUR_TURN = "Your turn, {name}."
EDITED_CALL = "A person changed your call before it was made. Its arguments were: {arguments}\nIts result:"
"""Before the result of a call that a person edited, for the model that asked for another one."""


class ToolResult(NamedTuple):
    """The result of a tool call for the model: a value, the message of a failure, or the correction of a mistake.

    `call` is the call as it was made; `edited` says that a person changed what the model had asked for.
    """

    call: ToolCallPart
    content: JsonValue
    outcome: Literal["success", "failed", "retried"] = "success"
    files: tuple[Artifact, ...] = ()
    edited: bool = False


class ModelConversation:
    """The messages for a model, in order of time, with their digest and size so far.

    `sent_texts` are what its messages consist of, to be counted by a tokenizer. What a model thought is sent back to
    its provider and counts there too: `thinking_bytes` of text, and `reasoning_tokens` that only the provider can read.
    """

    __slots__ = (
        "_before_response", "_prompt", "count", "digest", "files", "messages", "prompt_bytes", "reasoning_tokens",
        "sent_texts", "speakers", "thinking_bytes",
    )  # fmt: skip

    def __init__(self, speakers: Collection[str] = ()) -> None:
        self.messages: list[ModelMessage] = []
        self.files: list[PlacedFile] = []
        self.speakers = speakers
        self.digest = ""
        self.sent_texts: list[str] = []
        self.prompt_bytes = self.count = self.thinking_bytes = self.reasoning_tokens = 0
        self._prompt = (0, "", 0, 0, 0)
        self._before_response = (0, "", 0, 0, 0, 0)

    @property
    def prompt_length(self) -> int:
        """The number of messages before the first response of this turn."""
        return self._prompt[0]

    @classmethod
    def of_turn(cls, turn: Turn, name: str, *, marks_shared: bool = False) -> ModelConversation:
        """Begin the conversation of a turn of the member `name`.

        The task stands where it was given: before the replies of this run, so that prompts of later turns begin like
        those of earlier ones. A last line says whose turn it is. If the task is not the team's, it is last.
        `marks_shared` adds a cache point to what later turns begin with.
        """
        speakers = turn.speakers
        conversation = cls(speakers)
        start = len(turn.history) if turn.since is None else turn.since
        for message in turn.history[:start]:
            conversation._add(message, name, speakers, earlier=True)
        conversation.add_user(turn.quoted_task)
        if turn.attachments:
            conversation._add_files(turn.attachments)
        for message in turn.history[start:]:
            conversation._add(message, name, speakers)
        if marks_shared:
            add_cache_points(conversation.messages)
        if turn.since is not None:
            conversation.add_user(YOUR_TURN.format(name=name))
        conversation._prompt = (
            len(conversation.messages), conversation.digest, conversation.prompt_bytes, conversation.count,
            len(conversation.sent_texts),
        )  # fmt: skip
        return conversation

    def next_response(self, start: int) -> int:
        """Return the position of the first response from `start` on: results stay with what called for them."""
        later = (at for at in range(start, len(self.messages)) if isinstance(self.messages[at], ModelResponse))
        return next(later, len(self.messages))

    def texts(self, start: int, end: int) -> Iterator[str]:
        """Yield messages as texts for a summary."""
        for message in self.messages[start:end]:
            yield "\n".join(filter(None, map(_part_text, message.parts)))

    def compact(self, cut: int, summary: str) -> None:
        """Replace what this turn has added before the message at `cut` by a summary."""
        kept, files = self.messages[cut:], self.files
        length, self.digest, self.prompt_bytes, self.count, texts = self._prompt
        self.sent_texts, self.thinking_bytes, self.reasoning_tokens = self.sent_texts[:texts], 0, 0
        self.messages = self.messages[:length]
        self.files = [one for one in files if one.at < length]
        self.add_user(summary)
        later = deque(one for one in files if one.at >= cut)
        for index, message in enumerate(kept, start=cut):
            self._add_again(message)
            while later and later[0].at == index:
                one = later.popleft()
                self._add_files((one.artifact,), from_tool=one.from_tool)

    def _add_again(self, message: ModelMessage) -> None:
        """Add a message that stays when those before it are replaced."""
        if isinstance(message, ModelResponse):
            self.add_response(message)
        else:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    self._count("result", part.tool_name, part.model_response_str(), part.tool_call_id, part.outcome)
                elif isinstance(part, UserPromptPart):
                    self._count("user", part.content if isinstance(part.content, str) else "")
            self.messages.append(message)

    def _add(self, message: Message, name: str, speakers: Collection[str], *, earlier: bool = False) -> None:
        """Add a message of the history: the member's own as the assistant's, others under their names.

        Some providers refuse a conversation that the assistant opens, so a message of its own at the start is sent
        under its name too.
        """
        if not message.content.strip() and not message.attachments:
            return  # providers refuse empty messages
        if message.name == name and message.role != "user" and self.messages:
            self._count("own", message.content)
            self.messages.append(ModelResponse(parts=[TextPart(message.content)]))
        else:
            self.add_user(text_under_name(message, speakers))
            if message.attachments:
                self._add_files(message.attachments, earlier=earlier)

    def add_user(self, text: str) -> None:
        """Add a message of the user: of a person, of another member, or a correction."""
        self._count("user", text)
        self.messages.append(ModelRequest(parts=[UserPromptPart(text)]))

    def add_response(self, response: ModelResponse) -> None:
        """Add a response of the model. What it thought is sent back to its provider and is no part of the digest."""
        self._before_response = (
            len(self.sent_texts), self.digest, self.prompt_bytes, self.count, self.thinking_bytes,
            self.reasoning_tokens,
        )  # fmt: skip
        for part in response.parts:
            if isinstance(part, TextPart):
                self._count("own", part.content)
            elif isinstance(part, ToolCallPart):
                self._count("call", part.tool_name, compact_arguments(part.args), part.tool_call_id)
                self.sent_texts[-2] = max(
                    self.sent_texts[-2], arguments_text(part.args), key=len
                )  # sent as it was written
            elif isinstance(part, ThinkingPart):
                self.sent_texts.append(part.content)
                self.thinking_bytes += text_size(part.content)
        if any(isinstance(part, ThinkingPart) for part in response.parts):
            self.reasoning_tokens += reasoning_tokens(response)
        self.messages.append(response)

    def add_results(self, results: Sequence[ToolResult]) -> None:
        """Add the results of the tool calls in the last response; a call that a person edited replaces the model's."""
        if any(one.edited for one in results):
            self._replace_calls({one.call.tool_call_id: one.call for one in results if one.edited})
        parts: list[ToolReturnPart] = []
        for call, value, outcome, files, edited in results:
            content = with_pointers(value, files) if files else value
            text = content if isinstance(content, str) else to_json(content).decode()
            if edited:
                note = EDITED_CALL.format(arguments=compact_arguments(call.args))
                content = text = f"{note}\n{text}"
            self._count("result", call.tool_name, text, call.tool_call_id, outcome)
            parts.append(ToolReturnPart(call.tool_name, content, call.tool_call_id, outcome=outcome))
        self.messages.append(ModelRequest(parts=parts))
        for one in results:
            if one.files:
                self._add_files(one.files, from_tool=True)

    def _replace_calls(self, calls: Mapping[str, ToolCallPart]) -> None:
        """Replace calls of the last response, by their ids, as if the model had made them so."""
        response = self.messages.pop()
        assert isinstance(response, ModelResponse)
        texts, self.digest, self.prompt_bytes, self.count, self.thinking_bytes, self.reasoning_tokens = (
            self._before_response
        )
        del self.sent_texts[texts:]
        parts = [
            calls.get(part.tool_call_id, part) if isinstance(part, ToolCallPart) else part for part in response.parts
        ]
        self.add_response(replace(response, parts=parts))

    def _add_files(self, files: Sequence[Artifact], *, from_tool: bool = False, earlier: bool = False) -> None:
        """Add files to the last message. The digest covers the hash of their content, whatever is sent of it."""
        for one in files:
            self._count("file", *one.identity)
            self.files.append(PlacedFile(len(self.messages) - 1, one, from_tool, earlier))

    def _count(self, kind: str, *texts: str) -> None:
        self.digest = digest(self.digest, kind, *texts)
        self.prompt_bytes += sum(map(text_size, texts))
        self.sent_texts += texts
        self.count += 1


def _part_text(part: ModelRequestPart | ModelResponsePart) -> str:
    match part:
        case ToolCallPart():
            return f"called {part.tool_name} with {part.args_as_json_str()}"
        case ToolReturnPart():
            return f"{part.tool_name} returned: {part.model_response_str()}"
        case TextPart(content=str() as text) | UserPromptPart(content=str() as text):
            return text
        case _:
            return ""
