"""The structured output of members while it grows, from what a follower of a run sees."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from teamwright.history.event_bodies import Texts
from teamwright.values.events.agent import AgentAsked, AgentReplied
from teamwright.values.events.event import WRAPPED, AnyDelta, Event, ThinkingDelta
from teamwright.values.typed_data import PartialReader, parse_partial
from teamwright.values.value import JsonValue

T = TypeVar("T")


SHARE = 32
"""A text is parsed again when it has grown by this part of itself, so that all parses together take linear time."""


@dataclass(frozen=True, slots=True)
class PartialOutput(Generic[T]):
    """The structured output of one turn so far.

    `data` is the JSON that has arrived, in which the last text may be cut. `value` is the longest part of it that is
    valid as the type that was asked for, or `None`. The last one of a turn `is_final`, and its data is recorded.
    """

    member: str
    key: str
    data: JsonValue
    value: T | None = None
    is_final: bool = False


class OutputStream(Generic[T]):
    """Turns what a follower of a run sees into partial outputs, of one member or of all."""

    def __init__(
        self,
        texts: Callable[[Event], Awaitable[Texts]],
        output_type: type[T] | None = None,
        member: str | None = None,
    ) -> None:
        self._texts, self._member = texts, member
        self._reader = PartialReader(output_type) if output_type is not None else None
        self._members: dict[str, str] = {}
        self._writing: dict[str, _Written] = {}

    async def outputs(self, items: AsyncGenerator[Event | AnyDelta]) -> AsyncGenerator[PartialOutput[T]]:
        """Yield an output whenever it has grown, and once it is final."""
        async for item in items:
            found = await self._recorded(item) if isinstance(item, Event) else self._written(item)
            if found is not None:
                yield found

    def _written(self, delta: AnyDelta) -> PartialOutput[T] | None:
        if isinstance(delta, ThinkingDelta) or not delta.output or (self._member or delta.member) != delta.member:
            return None
        if delta.offset == 0:
            self._writing[delta.key] = _Written(wrapped=delta.output == "wrapped")
        if delta.key not in self._writing or not self._writing[delta.key].grow(delta.text):
            return None
        return self._output(delta.member, delta.key, self._writing[delta.key].data)

    async def _recorded(self, event: Event) -> PartialOutput[T] | None:
        match event.fact:
            case AgentAsked(member=member, member_kind=kind) if kind != "team" and self._member in (None, member):
                self._members[event.key] = member
            case AgentReplied(data=str()) if event.key in self._members:
                self._writing.pop(event.key, None)
                data = (await self._texts(event))["data"]
                return self._output(self._members[event.key], event.key, data, is_final=True)
            case _:
                pass
        return None

    def _output(self, member: str, key: str, data: JsonValue, *, is_final: bool = False) -> PartialOutput[T]:
        value = self._reader.read(data, is_final=is_final) if self._reader is not None else None
        return PartialOutput(member, key, data, value, is_final)


class _Written:
    """The text of one output so far."""

    __slots__ = ("_length", "_parsed", "_pieces", "_wrapped", "data")

    def __init__(self, *, wrapped: bool) -> None:
        self._wrapped, self._pieces = wrapped, list[str]()
        self._length = self._parsed = 0
        self.data: JsonValue = None

    def grow(self, piece: str) -> bool:
        """Add a piece; return whether the data has changed."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length - self._parsed < self._length // SHARE:
            return False
        self._parsed, before = self._length, self.data
        self._pieces = ["".join(self._pieces)]
        data = parse_partial(self._pieces[0])
        if self._wrapped:
            data = data.get(WRAPPED) if isinstance(data, dict) else None
        self.data = data if data is not None else before
        return self.data != before
