"""Compares two runs: the turns they have in common, the first difference, and what each member did in either.

A turn is an ask of a member that is no team. Turns of two runs are matched by their place, so branches that finished
in another order are no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from teamwright.history.recorded_asks import RecordedAsk
from teamwright.history.run_history import RunHistory, turns_in
from teamwright.history.run_record import RunRecord
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.run import Origin
from teamwright.values.run_keys import join_key, key_segments, split_attempt, with_attempt
from teamwright.values.turns.results import RunResult, Status, StopReason
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import Record

TurnStatus = Literal["replied", "failed", "stopped", "open"]
DifferenceKind = Literal["same", "only_a", "only_b", "member", "told", "status", "said"]


class RunSide(Record, frozen=True):
    """One of the two runs."""

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
    """A turn in one of the runs; `number` is that of the event with which it began."""

    number: int
    member: str
    status: TurnStatus
    text: str
    total_tokens: int
    usd: float | None


class TurnPair(Record, frozen=True):
    """The turns of both runs at one place. `how` is the most important difference between them."""

    key: str
    how: DifferenceKind
    a: TurnSide | None = None
    b: TurnSide | None = None

    @property
    def member(self) -> str:
        side = self.a or self.b
        return side.member if side else ""


class MemberSide(Record, frozen=True):
    """The totals of a member in one of the runs; `status` is that of its last turn."""

    turns: int = 0
    total_tokens: int = 0
    usd: float | None = None
    status: TurnStatus | None = None


class MemberPair(Record, frozen=True):
    """A member in both runs; `same` counts its turns that do not differ."""

    member: str
    same: int
    a: MemberSide
    b: MemberSide


class Change(Record, frozen=True):
    """A field of the team's manifest that differs between the runs."""

    path: str
    a: JsonValue
    b: JsonValue


class RunDiff(Record, frozen=True):
    """The differences between two runs."""

    a: RunSide
    b: RunSide
    same_task: bool
    changes: tuple[Change, ...]
    turns: tuple[TurnPair, ...]
    members: tuple[MemberPair, ...]

    @property
    def first_difference(self) -> TurnPair | None:
        return next((turn for turn in self.turns if turn.how != "same"), None)

    @property
    def common(self) -> int:
        """The number of turns that do not differ."""
        return len([turn for turn in self.turns if turn.how == "same"])

    @property
    def same(self) -> bool:
        """Whether turns, status, stop reason and output are all the same."""
        ends = [(side.status, side.stop_reason, side.output) for side in (self.a, self.b)]
        return self.first_difference is None and ends[0] == ends[1]

    def to_json(self) -> dict[str, JsonValue]:
        first = self.first_difference
        found: dict[str, JsonValue] = {
            "same": self.same,
            "common_turns": self.common,
            "first_difference": first.to_json() if first else None,
        }
        return found | super().to_json()


def compare(a: RunHistory, b: RunHistory, result_a: RunResult, result_b: RunResult) -> RunDiff:
    """Compare two runs turn by turn."""
    first, second = _turns(a), _turns(b)
    pairs = tuple(_pair(key, first.get(key), second.get(key), a, b) for key in _merged(list(first), list(second)))
    return RunDiff(
        a=_run_side(a, result_a, len(first)),
        b=_run_side(b, result_b, len(second)),
        same_task=a.task == b.task,
        changes=tuple(_changes("", _manifest(a), _manifest(b))),
        turns=pairs,
        members=tuple(_members(pairs)),
    )


def _run_side(history: RunHistory, result: RunResult, turns: int) -> RunSide:
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
    """The turns of members by place, without superseded ones."""
    record = history.record
    turns = ((key, ask) for key, ask in turns_in(record).items() if not ask.is_team and not record.is_superseded(key))
    return {_place(key, record): ask for key, ask in turns} if record.inherited else dict(turns)


def _place(key: str, record: RunRecord) -> str:
    """The key of a turn, numbered as if the fork had superseded no ask around it."""
    place = around = ""
    for segment in key_segments(key):
        name, attempt = split_attempt(segment)
        before = [join_key(around, with_attempt(name, number)) for number in range(1, attempt)]
        place = join_key(place, with_attempt(name, 1 + sum(not record.is_superseded(one) for one in before)))
        around = join_key(around, segment)
    return place


def _merged(first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    """All places in the order of the first run; a place of the second run alone follows its predecessor there."""
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
        how=_difference(first, second),
        a=None if first is None else _turn_side(first, a),
        b=None if second is None else _turn_side(second, b),
    )


def _turn_side(ask: RecordedAsk, history: RunHistory) -> TurnSide:
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
            return "stopped" if ask.is_cancelled else "failed"


def _difference(first: RecordedAsk | None, second: RecordedAsk | None) -> DifferenceKind:
    if first is None or second is None:
        return "only_b" if first is None else "only_a"
    if first.asked.member != second.asked.member:
        return "member"
    if first.asked.digest != second.asked.digest:
        return "told"
    if _status(first) != _status(second):
        return "status"
    return "same" if _content(first) == _content(second) else "said"


def _content(ask: RecordedAsk) -> tuple[object, ...]:
    """The content of a turn's ending, without its cost."""
    match ask.ending:
        case None:
            return ()
        case AgentReplied() as reply:
            return (reply.messages, reply.data, reply.signal)
        case AgentFailed() as failed:
            return (failed.messages, failed.error, failed.message)


def _members(pairs: Sequence[TurnPair]) -> Iterator[MemberPair]:
    """Yield the members in the order of their first turns."""
    same = Counter(pair.member for pair in pairs if pair.how == "same")
    turns: dict[str, tuple[list[TurnSide], list[TurnSide]]] = {}
    for pair in pairs:
        for number, side in enumerate((pair.a, pair.b)):
            if side is not None:
                turns.setdefault(side.member, ([], []))[number].append(side)
    for name, (in_a, in_b) in turns.items():
        yield MemberPair(member=name, same=same[name], a=_member_side(in_a), b=_member_side(in_b))


def _member_side(turns: Sequence[TurnSide]) -> MemberSide:
    prices = [turn.usd for turn in turns if turn.usd is not None]
    return MemberSide(
        turns=len(turns),
        total_tokens=sum(turn.total_tokens for turn in turns),
        usd=sum(prices) if prices else None,
        status=turns[-1].status if turns else None,
    )


def _manifest(history: RunHistory) -> JsonValue:
    source = history.manifest
    return source.get("manifest") if isinstance(source, dict) else None


def _changes(path: str, a: JsonValue, b: JsonValue) -> Iterator[Change]:
    """Yield the fields in which two manifests differ; a list counts as one value."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _changes(f"{path}.{key}" if path else key, a.get(key), b.get(key))
    elif a != b:
        yield Change(path=path, a=a, b=b)
