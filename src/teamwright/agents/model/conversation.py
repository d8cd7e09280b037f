"""The conversation of one turn as its model receives it: the prompt, then responses, tool results and corrections.

The digest and the size of a request come from our own values, never from a library's types, so that a recorded request
matches whatever version of the library would send it. Files are read from the record when a request is sent, so never
on a replay: a text is sent as text under its name, any other file as binary content after a line with its name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal, NamedTuple, TypeVar

from pydantic import JsonValue
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_core import to_json

from teamwright.agents.agent import Workspace
from teamwright.agents.attachments import file_text, media_tokens, why_not_taken, with_pointers
from teamwright.agents.model.messages import arguments_text, compact_arguments, reasoning_tokens, text_under_name
from teamwright.agents.model.request_template import add_cache_points
from teamwright.errors import AgentError, InvalidOutput, Refused
from teamwright.values.call_limits import text_size
from teamwright.values.turns.artifacts import Artifact, is_text_type
from teamwright.values.turns.messages import Message, digest, header_name, with_header
from teamwright.values.turns.turn import ToolUse, Turn

T = TypeVar("T")
Send = Callable[[list[ModelMessage]], Awaitable[T]]
"""Sends the messages of a request."""

REFUSALS = frozenset(
    (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    )
)
"""The answers of servers to a request with a file that they can't take."""

NOT_SENT = "# file {name}: not sent, since this model does not take it"
"""Stands for a file of an earlier turn. It is part of prompts and must not change."""


class PlacedFile(NamedTuple):
    """A file, and the position of the message that it belongs to.

    `from_tool` says that a tool returned it, and `earlier` that it belongs to an earlier turn of the conversation: the
    turn goes on without it if the model does not take it.
    """

    at: int
    artifact: Artifact
    from_tool: bool = False
    earlier: bool = False

    @property
    def is_required(self) -> bool:
        """Whether the turn fails if the model does not take the file; every model takes text."""
        return not self.from_tool and not (self.earlier and not is_text_type(self.artifact.media_type))


def check_files(files: Sequence[PlacedFile], agent: str, model: str) -> None:
    """Raise `Refused` for a file of the task that the model is known not to take."""
    for one in files:
        if one.is_required and (reason := why_not_taken(one.artifact.media_type, model)) is not None:
            raise Refused(f"The model {model!r} of {agent!r} does not take {file_text(one.artifact)}: {reason}.")


@dataclass(frozen=True, slots=True)
class FilesOfRequest:
    """The files of one request to a model, with the authors in its conversation, whose names no text may imitate."""

    files: Sequence[PlacedFile]
    speakers: Collection[str]
    model: str

    async def send(self, messages: list[ModelMessage], workspace: Workspace, send: Send[T]) -> T:
        """Send the messages with their files. If the server refuses them, send them again with those of the task alone.

        The result of a tool names its files anyway, and so does a line in place of an earlier file. A server that
        refuses a request charges nothing for it.
        """
        taken = [one for one in self.files if why_not_taken(one.artifact.media_type, self.model) is None]
        contents = {one.artifact.hash: await workspace.open(one.artifact) for one in taken}
        of_task = [one for one in taken if one.is_required]
        try:
            return await send(self._with_contents(messages, taken, contents))
        except Exception as error:
            if len(of_task) == len(taken) or not _refuses_files(error):
                raise
        return await send(self._with_contents(messages, of_task, contents))

    def _with_contents(
        self, messages: list[ModelMessage], files: Sequence[PlacedFile], contents: Mapping[str, str | bytes]
    ) -> list[ModelMessage]:
        """Return the messages with the contents of these files, each in the message that it belongs to."""
        sent, placed = list(messages), dict[int, list[UserContent]]()
        for one in self.files:
            if one in files:
                placed.setdefault(one.at, []).extend(self._content(one.artifact, contents[one.artifact.hash]))
            elif one.earlier:
                placed.setdefault(one.at, []).append(NOT_SENT.format(name=header_name(one.artifact.name)))
        for at, added in placed.items():
            message = sent[at]
            assert isinstance(message, ModelRequest)
            *before, last = message.parts
            if isinstance(last, UserPromptPart):
                sent[at] = replace(message, parts=[*before, _with_files(last, added)])
            else:
                sent[at] = replace(message, parts=[*message.parts, UserPromptPart(added)])
        return sent

    def _content(self, file: Artifact, content: str | bytes) -> list[UserContent]:
        if is_text_type(file.media_type):
            text = content if isinstance(content, str) else content.decode("utf-8-sig", "replace")
            return [with_header(f"file {file.name}", text, self.speakers)]
        data = content.encode() if isinstance(content, str) else content
        return [f"# file {header_name(file.name)}:", BinaryContent(data, media_type=file.media_type)]


def _with_files(prompt: UserPromptPart, files: Sequence[UserContent]) -> UserPromptPart:
    """Add files to the end of a prompt, but before a cache point, so that they are cached with it."""
    content = [prompt.content] if isinstance(prompt.content, str) else list(prompt.content)
    points = [one for one in content if isinstance(one, CachePoint)]
    return replace(prompt, content=[*(one for one in content if not isinstance(one, CachePoint)), *files, *points])


def name_files(
    failure: AgentError, error: Exception, files: Sequence[PlacedFile], agent: str, model: str
) -> AgentError:
    """Return the failure of a request with files; names them if they are what the model may have refused."""
    of_task = [one for one in files if one.is_required]
    if not of_task or not _refuses_files(error) or not isinstance(failure, Refused | InvalidOutput):
        return failure
    reason = str(failure).partition(": ")[2] if isinstance(error, AgentRunError) else str(error)
    named = ", ".join(file_text(one.artifact) for one in of_task)
    return Refused(
        f"The model {model!r} of {agent!r} refused a request with {named}: {reason.rstrip('.')}; if it takes no such"
        " file, use a model that does."
    )


def _refuses_files(error: Exception) -> bool:
    """Whether an error may mean that the server, or pydantic-ai on its behalf, takes no such file."""
    if isinstance(error, ModelHTTPError):
        return error.status_code in REFUSALS
    return isinstance(error, UserError | NotImplementedError | AssertionError | RuntimeError) and not isinstance(
        error, AgentRunError
    )


UNSENT = frozenset(("timestamp", "metadata", "retry"))
"""Fields of parts that no model is sent."""


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


def tool_use_of(result: ToolResult) -> ToolUse:
    """Return a call as the reply keeps it; files are named by their pointers."""
    content = with_pointers(result.content, result.files) if result.files else result.content
    arguments = compact_arguments(result.call.args)
    return ToolUse.of(result.call.tool_name, arguments, content, failed=result.outcome == "failed")


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

    @classmethod
    def of_messages(cls, messages: Sequence[ModelMessage]) -> ModelConversation:
        """Take over the messages of a loop that is not ours, as they are."""
        conversation = cls()
        for message in messages:
            if isinstance(message, ModelResponse):
                conversation.add_response(message)
            else:
                for part in message.parts:
                    conversation._count_part(part)
                conversation.messages.append(message)
        return conversation

    def _count_part(self, part: ModelRequestPart) -> None:
        match part:
            case ToolReturnPart():
                self._count("result", part.tool_name, part.model_response_str(), part.tool_call_id, part.outcome)
            case SystemPromptPart(content=text):
                self._count("system", text)
            case UserPromptPart(content=content):
                for one in [content] if isinstance(content, str) else content:
                    self._count_content(one)
            case _:
                fields = {name: value for name, value in vars(part).items() if name not in UNSENT}
                self._count("part", to_json(fields, fallback=str, serialize_unknown=True).decode())

    def _count_content(self, content: UserContent) -> None:
        match content:
            case str():
                self._count("user", content)
            case BinaryContent(data=data, media_type=media_type):
                file = Artifact(digest(data.hex()), "", media_type, len(data))
                self._count("file", *file.identity)
                self.reasoning_tokens += media_tokens((file,), "")
            case CachePoint():
                pass
            case _:
                self._count("content", to_json(content, fallback=str, serialize_unknown=True).decode())

    def next_response(self, start: int) -> int:
        """Return the position of the first response from `start` on: results stay with what called for them."""
        later = (at for at in range(start, len(self.messages)) if isinstance(self.messages[at], ModelResponse))
        return next(later, len(self.messages))

    def texts(self, start: int, end: int) -> Iterator[str]:
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
        """Add a response of the model. What it thought is sent back to its provider and is not part of the digest."""
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
