"""Messages, append-only conversations that turns share without copying, and their text under headers, `# name:`.

No message can forge a header: a line that looks like one gets a backslash before its `#`, and a line that has
backslashes there already gets one more, so that the quoting is reversible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Literal, overload

from typing_extensions import override

from teamwright.values.turns.artifacts import Artifact
from teamwright.values.value import JsonValue, Record

Role = Literal["user", "assistant"]
DIGEST_BYTES = 20
_NEW_HASH = blake2b(digest_size=DIGEST_BYTES)
"""Copying it takes a third of the time of creating one."""


def digest(text: str, *more: str) -> str:
    """Return the content hash of one or more strings as hex; it identifies bodies and turns."""
    if more:
        text = "".join([f"{len(part)}:{part}" for part in (text, *more)])
    hashed = _NEW_HASH.copy()
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


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


LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The line breaks of `str.splitlines`, any of which a reader may take for the end of a line."""
MOST_NAME = 120
"""The most characters of a line that are searched for a name."""
ROLES = frozenset(("user", "system", "assistant", "human", "developer"))
"""Names that every reader takes for a speaker."""

_BLANKS = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_UNSEEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_INVISIBLE = (
    "".join(map(chr, (*range(0x2000, 0x2010), *range(0x2060, 0x2065))))
    + " \t\u00a0\u1680\u202f\u205f\u3000\u00ad\ufeff"
)
_HASHES, _COLONS = "#\uff03", ":\uff1a"


@cache
def _lookalike() -> re.Pattern[str]:
    """Return what finds the beginnings of lines that look like a header; few messages contain a `#`."""
    # Every repetition is bounded or ends at the end of its line, so that a search takes linear time.
    return re.compile(
        rf"(?:^|(?<=[{LINE_BREAKS}]))"
        rf"([{_UNSEEN}]{{0,16}}+(?:[{_BLANKS}][{_UNSEEN}]{{0,16}}+){{0,3}}+)"
        rf"(?=\\*+([{_HASHES}]{{1,6}}+)([^{LINE_BREAKS}{_COLONS}]{{0,{MOST_NAME}}}+)[{_COLONS}]"
        rf"([^{LINE_BREAKS}]*+))"
    )


def with_header(name: str, text: str, speakers: Collection[str] = ()) -> str:
    """Return a text under its author's header, with lines quoted that look like a header."""
    return f"# {header_name(name)}:\n{quote_headers(text, speakers)}"


def quote_headers(text: str, speakers: Collection[str] = ()) -> str:
    """Quote every line that looks like a header.

    Such a line consists of one `#` and text that ends in a colon, or begins with up to six `#` and the name of a
    speaker. Other lines, such as Markdown headings and comments in code, stay as they are.
    """
    if not any(mark in text for mark in _HASHES):
        return text
    known = ROLES.union(map(str.casefold, speakers))

    def quote(found: re.Match[str]) -> str:
        indent, hashes, name, rest = found.groups()
        bare = not (rest := rest.strip(_INVISIBLE)) or rest[-1] in _COLONS
        words = name.strip().strip("*_`").casefold().split()
        spoken = bool(words) and (words[0] == "tool" or (len(words) == 1 and words[0] in known))
        return f"{indent}\\" if spoken or (len(hashes) == 1 and bare) else indent

    return _lookalike().sub(quote, text)


@lru_cache(maxsize=1024)
def header_name(name: str) -> str:
    """Return a name as it is written in a header: on one line, without characters that would end the header."""
    plain = "".join(one if one.isprintable() and one not in _HASHES + _COLONS else " " for one in name)
    return single_line(plain)[:MOST_NAME].rstrip() or "unnamed"


def transcript(messages: Iterable[Message]) -> str:
    """Return all messages under their headers, separated by empty lines."""
    said = list(messages)
    speakers = {message.name for message in said}
    return "\n\n".join(with_header(message.name, message.content, speakers) for message in said)


def single_line(text: str) -> str:
    """Collapse all whitespace of a text, including line breaks, to single blanks."""
    return " ".join(text.split())
