"""What holds for the spans of any run, whatever happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teamwright.history.run_history import RunHistory
from teamwright.history.run_record import RunRecord
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.otlp import encode
from teamwright.history.telemetry.run_spans import spans_of
from teamwright.history.telemetry.spans import Span
from teamwright.values.events.agent import AgentCallFailed
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded
from teamwright.values.usage_and_prices import NOTHING, Usage


def check_spans(events: Sequence[Event]) -> list[Span]:
    """Check the spans of a record, and of what was recorded until each drive ended; return them."""
    spans = spans_of(events)
    assert encode(spans) == encode(spans_of(events)), "exporting twice is the same export"
    check_tree(spans)
    check_tokens(spans, events)
    whole = {one.span_id: one for one in spans}
    for number, event in enumerate(events):
        if event.kind == "run.resumed" and number:
            for one in spans_of(events[:number]):  # as sent when the driver had left, or was lost
                assert whole.get(one.span_id) == one
    return spans


def check_tree(spans: Sequence[Span]) -> None:
    """Each span is there once, within one that is there, and none has the usage of another."""
    ids = [one.span_id for one in spans]
    assert len(ids) == len(set(ids)), "a span is there once"
    known = set(ids)
    for one in spans:
        is_drive = names.DRIVE in one.attributes
        assert (one.parent == b"") == is_drive
        assert is_drive or one.parent in known, f"{one.name} has a parent"
        assert one.end >= one.begin
        is_chat = one.attributes.get(names.OPERATION) == names.CHAT
        if not is_chat:
            assert not {names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.COST, names.REQUEST_MODEL} & set(one.attributes)
    assert len({one.trace_id for one in spans}) <= 1


def check_tokens(spans: Sequence[Span], events: Sequence[Event]) -> None:
    """The tokens of all chats are those of the ledger, and so are those of all drives."""
    ended = events[-1].fact
    assert isinstance(ended, RunEnded)
    record = RunRecord.from_events(events)
    expected = ended.usage.total_tokens - inherited_usage(events, record).total_tokens
    chats = [one.attributes for one in spans if one.attributes.get(names.OPERATION) == names.CHAT]
    assert sum(_count(one, names.INPUT_TOKENS) + _count(one, names.OUTPUT_TOKENS) for one in chats) == expected
    drives = [one.attributes for one in spans if names.DRIVE in one.attributes]
    assert sum(_count(one, names.TOTAL_TOKENS) for one in drives) == expected


def inherited_usage(events: Sequence[Event], record: RunRecord) -> Usage:
    """What a fork took over and counts, because it did not ask again."""
    taken = RunHistory(events, record).inherited_tokens()
    failed = sum(
        (
            event.fact.usage
            for event in events[: record.inherited]
            if isinstance(event.fact, AgentCallFailed) and not record.is_superseded(event.scope)
        ),
        NOTHING,
    )
    return failed + Usage(input_tokens=taken)


def _count(attributes: Mapping[str, object], name: str) -> int:
    found = attributes.get(name, 0)
    assert isinstance(found, int)
    return found
