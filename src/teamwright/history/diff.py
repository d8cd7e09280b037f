"""Two runs side by side: which turns they have in common, where they part, and what each member did in either.

A turn is one ask of a member that is no team. Turns of two runs belong together by their place, so branches that
finished in another order are no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from teamwright.history.checkpoints import turns_in
from teamwright.history.history import RunHistory
from teamwright.history.record.asks import RecordedAsk
from teamwright.history.record.run_record import RunRecord
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.run import Origin
from teamwright.values.key import join_key, key_segments, split_attempt, with_attempt
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.models import Record
from teamwright.values.results import RunResult, Status, StopReason

TurnStatus = Literal["replied", "failed", "stopped", "open"]
How = Literal["same", "only_a", "only_b", "member", "told", "status", "said"]


class RunSide(Record, frozen=True):
    """One of the two runs as a whole."""

    run_id: str
    team: str
    status: Status
    stop_reason: StopReason | None
    origin: Origin | None
    turns: int
    total_tokens: int
    usd: float | None
    seconds: float
    output: str | None


class TurnSide(Record, frozen=True):
    """A turn in one of the runs; `number` is the event with which it began."""

    number: int
    member: str
    status: TurnStatus
    text: str
    total_tokens: int
    usd: float | None


class TurnPair(Record, frozen=True):
    """One place in both runs: how they differ there, the weightiest first, and what stands on either side."""

    key: str
    how: How
    a: TurnSide | None = None
    b: TurnSide | None = None

    @property
    def member(self) -> str:
        """Whose turn it is."""
        side = self.a or self.b
        return side.member if side else ""


class MemberSide(Record, frozen=True):
    """What a member did in one of the runs; `status` is that of its last turn."""

    turns: int = 0
    total_tokens: int = 0
    usd: float | None = None
    status: TurnStatus | None = None


class MemberPair(Record, frozen=True):
    """A member in both runs: how many of its turns are the same."""

    member: str
    same: int
    a: MemberSide
    b: MemberSide


class Change(Record, frozen=True):
    """A place in the declaration of the team where the runs differ."""

    path: str
    a: JsonValue
    b: JsonValue


class Comparison(Record, frozen=True):
    """What two runs have in common and what not."""

    a: RunSide
    b: RunSide
    same_task: bool
    changes: tuple[Change, ...]
    turns: tuple[TurnPair, ...]
    members: tuple[MemberPair, ...]

    @property
    def first_difference(self) -> TurnPair | None:
        """The first place at which they part."""
        return next((turn for turn in self.turns if turn.how != "same"), None)

    @property
    def common(self) -> int:
        """How many turns are the same."""
        return len([turn for turn in self.turns if turn.how == "same"])

    @property
    def same(self) -> bool:
        """Whether the runs came to the same in the same way."""
        ends = [(side.status, side.stop_reason, side.output) for side in (self.a, self.b)]
        return self.first_difference is None and ends[0] == ends[1]

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as data."""
        first = self.first_difference
        found: dict[str, JsonValue] = {
            "same": self.same,
            "common_turns": self.common,
            "first_difference": first.to_json() if first else None,
        }
        return found | super().to_json()


def compare(a: RunHistory, b: RunHistory, result_a: RunResult, result_b: RunResult) -> Comparison:
    """Hold two runs against each other."""
    first, second = _turns(a), _turns(b)
    pairs = tuple(_pair(key, first.get(key), second.get(key), a, b) for key in _merged(list(first), list(second)))
    return Comparison(
        a=_side(a, result_a, len(first)),
        b=_side(b, result_b, len(second)),
        same_task=a.task == b.task,
        changes=tuple(_changes("", _declared(a), _declared(b))),
        turns=pairs,
        members=tuple(_members(pairs)),
    )


def _side(history: RunHistory, result: RunResult, turns: int) -> RunSide:
    return RunSide(
        run_id=result.run_id,
        team=history.started.team,
        status=result.status,
        stop_reason=result.stop_reason,
        origin=history.started.origin,
        turns=turns,
        total_tokens=result.usage.total_tokens,
        usd=result.usage.usd,
        seconds=result.seconds,
        output=result.output,
    )


def _turns(history: RunHistory) -> dict[str, RecordedAsk]:
    """The turns of members by their places; those that a fork asked anew count no more."""
    record = history.record
    turns = ((key, ask) for key, ask in turns_in(record).items() if not ask.is_team and not record.is_superseded(key))
    return {_place(key, record): ask for key, ask in turns} if record.inherited else dict(turns)


def _place(key: str, record: RunRecord) -> str:
    """The key of a turn as it would be if nothing around it had been asked anew by a fork."""
    place = around = ""
    for segment in key_segments(key):
        name, attempt = split_attempt(segment)
        before = [join_key(around, with_attempt(name, number)) for number in range(1, attempt)]
        place = join_key(place, with_attempt(name, 1 + sum(not record.is_superseded(one) for one in before)))
        around = join_key(around, segment)
    return place


def _merged(first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    """All places in the order of the first run; those of the second alone after the one that they follow there."""
    known = set(first)
    after: dict[str, list[str]] = {}
    last = ""
    for key in second:
        if key in known:
            last = key
        else:
            after.setdefault(last, []).append(key)
    yield from after.get("", ())
    for key in first:
        yield key
        yield from after.get(key, ())


def _pair(key: str, first: RecordedAsk | None, second: RecordedAsk | None, a: RunHistory, b: RunHistory) -> TurnPair:
    return TurnPair(
        key=key,
        how=_how(first, second),
        a=None if first is None else _turn(first, a),
        b=None if second is None else _turn(second, b),
    )


def _turn(ask: RecordedAsk, history: RunHistory) -> TurnSide:
    messages = history.record.bodies.messages(ask.ending.messages) if ask.ending else ()
    said = "\n\n".join(message.content for message in messages)
    if isinstance(ask.ending, AgentFailed):
        said = "\n\n".join(filter(None, (said, f"{ask.ending.error}: {ask.ending.message}")))
    usage: Usage = ask.ending.usage if ask.ending else NOTHING
    return TurnSide(
        number=ask.number,
        member=ask.asked.member,
        status=_status(ask),
        text=said,
        total_tokens=usage.total_tokens,
        usd=usage.usd,
    )


def _status(ask: RecordedAsk) -> TurnStatus:
    match ask.ending:
        case None:
            return "open"
        case AgentReplied():
            return "replied"
        case AgentFailed():
            return "stopped" if ask.stopped else "failed"


def _how(first: RecordedAsk | None, second: RecordedAsk | None) -> How:
    if first is None or second is None:
        return "only_b" if first is None else "only_a"
    if first.asked.member != second.asked.member:
        return "member"
    if first.asked.digest != second.asked.digest:
        return "told"
    if _status(first) != _status(second):
        return "status"
    return "same" if _said(first) == _said(second) else "said"


def _said(ask: RecordedAsk) -> tuple[object, ...]:
    """What came of a turn, by its content and without what it cost."""
    match ask.ending:
        case None:
            return ()
        case AgentReplied() as reply:
            return (reply.messages, reply.data, reply.signal)
        case AgentFailed() as failed:
            return (failed.messages, failed.error, failed.message)


def _members(pairs: Sequence[TurnPair]) -> Iterator[MemberPair]:
    """Who took part, in the order of their first turns."""
    names = dict.fromkeys(side.member for pair in pairs for side in (pair.a, pair.b) if side)
    for name in names:
        yield MemberPair(
            member=name,
            same=len([pair for pair in pairs if pair.how == "same" and pair.member == name]),
            a=_share([pair.a for pair in pairs if pair.a and pair.a.member == name]),
            b=_share([pair.b for pair in pairs if pair.b and pair.b.member == name]),
        )


def _share(turns: Sequence[TurnSide]) -> MemberSide:
    prices = [turn.usd for turn in turns if turn.usd is not None]
    return MemberSide(
        turns=len(turns),
        total_tokens=sum(turn.total_tokens for turn in turns),
        usd=sum(prices) if prices else None,
        status=turns[-1].status if turns else None,
    )


def _declared(history: RunHistory) -> JsonValue:
    source = history.manifest
    return source.get("manifest") if isinstance(source, dict) else None


def _changes(path: str, a: JsonValue, b: JsonValue) -> Iterator[Change]:
    """Where two declarations differ; lists count as one value."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _changes(f"{path}.{key}" if path else key, a.get(key), b.get(key))
    elif a != b:
        yield Change(path=path, a=a, b=b)
