"""What is said: messages, and the append-only conversations that turns look at without copying."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal, overload

from teamwright.values.models import Record

Role = Literal["user", "assistant"]
DIGEST_BYTES = 20


def digest(text: str, *more: str) -> str:
    """The content hash of one or more strings, as hex; used for bodies and for matching turns."""
    if more:
        text = "".join([f"{len(part)}:{part}" for part in (text, *more)])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


class Message(Record, frozen=True):
    """One thing that somebody said."""

    name: str
    content: str
    role: Role = "assistant"


def _rolled(before: str, messages: Sequence[Message]) -> str:
    """The digest of a conversation with these further messages, from that of the conversation before them."""
    for message in messages:
        name, role, content = message.name, message.role, message.content
        before = digest(f"{before} {role} {len(name)} {name} {content}")
    return before


class History(Sequence[Message]):
    """A fixed stretch of a conversation. It stays as it is when the conversation grows, and costs nothing to make."""

    __slots__ = ("_messages", "_start", "_stop", "digest")

    def __init__(self, messages: list[Message], start: int, stop: int, digest: str) -> None:
        self._messages, self._start, self._stop = messages, start, stop
        self.digest = digest

    @classmethod
    def of(cls, messages: Iterable[Message]) -> History:
        """A history of its own, from messages that belong to no conversation."""
        kept = list(messages)
        return cls(kept, 0, len(kept), _rolled("", kept))

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
    """Messages in the order they were said; only ever grows.

    The digest rolls: it is made from the one before and the new message, so adding and matching take constant work. It
    is made when somebody is told, since much of what is said is told to nobody.
    """

    __slots__ = ("_digest", "_digested", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._digest, self._digested = "", 0

    def append(self, message: Message) -> None:
        """Add what was said."""
        self._messages.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add several, in order."""
        self._messages.extend(messages)

    def history(self) -> History:
        """Everything so far."""
        length = len(self._messages)
        self._digest = _rolled(self._digest, self._messages[self._digested :])
        self._digested = length
        return History(self._messages, 0, length, self._digest)

    def since(self, start: int) -> tuple[Message, ...]:
        """What was said from the given position on."""
        return tuple(self._messages[start:])

    def __len__(self) -> int:
        return len(self._messages)


EMPTY = Conversation().history()
