"""The files in the conversation of a turn: read from the record when a request is sent, so never on a replay.

A text is sent as text under its name; any other file as binary content, after a line with its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NamedTuple, TypeVar

from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UserError
from pydantic_ai.messages import BinaryContent, CachePoint, ModelMessage, ModelRequest, UserContent, UserPromptPart

from teamwright.agents.contract.context import Workspace
from teamwright.agents.files.media import file_text, why_not_taken
from teamwright.errors import AgentError, InvalidOutput, Refused
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.media_types import is_text_type
from teamwright.values.turns.transcript import header_name, with_header

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
