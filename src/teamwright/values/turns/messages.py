"""Messages, and append-only conversations that turns share without copying."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal, overload

from typing_extensions import override

from teamwright.values.models import JsonValue, Record
from teamwright.values.turns.artifacts import Artifact

Role = Literal["user", "assistant"]
DIGEST_BYTES = 20


def digest(text: str, *more: str) -> str:
    """Return the content hash of one or more strings as hex; it identifies bodies and turns."""
    if more:
        text = "".join([f"{len(part)}:{part}" for part in (text, *more)])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


class Message(Record, frozen=True):
    """One message: its author's name, its text, its role, and the files that go with it."""

    name: str
    content: str
    role: Role = "assistant"
    attachments: tuple[Artifact, ...] = ()

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; `attachments` only where there are some."""
        fields = super().to_json()
        if not self.attachments:
            del fields["attachments"]
        return fields


def _extended_digest(before: str, messages: Sequence[Message]) -> str:
    """Extend the rolling digest of a conversation by these messages."""
    for message in messages:
        name, role, content = message.name, message.role, message.content
        before = digest(f"{before} {role} {len(name)} {name} {content}")
        if message.attachments:
            before = digest(before, *(part for one in message.attachments for part in one.identity))
    return before


class History(Sequence[Message]):
    """An immutable slice of a conversation. It shares the list of messages, so it is cheap to create."""

    __slots__ = ("_messages", "_start", "_stop", "digest")

    def __init__(self, messages: list[Message], start: int, stop: int, digest: str) -> None:
        self._messages, self._start, self._stop = messages, start, stop
        self.digest = digest

    @classmethod
    def of(cls, messages: Iterable[Message]) -> History:
        """Return a history of messages that belong to no conversation."""
        kept = list(messages)
        return cls(kept, 0, len(kept), _extended_digest("", kept))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return self._messages[self._start : self._stop][index]
        size = len(self)
        if not -size <= index < size:
            raise IndexError(index)
        return self._messages[self._start + (index if index >= 0 else index + size)]

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Message]:
        for index in range(self._start, self._stop):
            yield self._messages[index]

    def __repr__(self) -> str:
        return f"History({len(self)} messages, {self.digest[:8]})"


class Conversation:
    """An append-only list of messages.

    Its digest is rolling: it is computed from the previous one and the new message, so appending takes constant work.
    It is computed lazily, in `history`, since many messages never reach a prompt.
    """

    __slots__ = ("_digest", "_digested", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._digest, self._digested = "", 0

    def append(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append several messages, in order."""
        self._messages.extend(messages)

    def history(self) -> History:
        """The history of all messages so far."""
        length = len(self._messages)
        self._digest = _extended_digest(self._digest, self._messages[self._digested :])
        self._digested = length
        return History(self._messages, 0, length, self._digest)

    def since(self, start: int) -> tuple[Message, ...]:
        """The messages from the given position on."""
        return tuple(self._messages[start:])

    def __len__(self) -> int:
        return len(self._messages)


EMPTY = Conversation().history()
