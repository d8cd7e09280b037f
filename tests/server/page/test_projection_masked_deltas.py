"""A part is masked as one text from its beginning, whenever its reader comes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.server.page.projection import MaskedDeltas
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.event import Delta, Event, ThinkingDelta

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq2\nZm9vYmFyZm9vYmFy\n-----END RSA PRIVATE KEY-----"
TEXT = f"so the key is sk-abcdefghijklmnopqrst and {PEM} and tw_{'aB3-_' * 9} is ours "
LEAKS = ("abcdefgh", "MIIE", "Zm9v", "aB3-_")


def piece(text: str, offset: int, *, key: str = "k", attempt: int = 1, kind: type[Delta] | type[ThinkingDelta] = Delta):
    return kind(run_id="r", key=key, member="m", attempt=attempt, offset=offset, text=text)


@given(st.sets(st.integers(1, len(TEXT) - 1), max_size=12), st.integers(0, 12), st.booleans())
def test_a_late_reader_sees_what_an_early_one_has_seen(cuts: set[int], join: int, interrupted: bool) -> None:
    deltas, ends = MaskedDeltas(), [*sorted(cuts), len(TEXT)]
    early, late, at = "", None, 0
    for index, end in enumerate(ends):
        if index == min(join, len(ends) - 1):
            late = "".join(one.text for one in deltas.written() if one.kind == "delta.text")
            assert late == early
        shown = deltas.masked(piece(TEXT[at:end], at))
        if interrupted:  # by another part, and back
            deltas.masked(piece("hm ", 0 if index == 0 else index, kind=ThinkingDelta))
        if shown is not None:
            assert shown.offset == len(early)
            early += shown.text
            late = None if late is None else late + shown.text
        at = end
    assert late == early
    assert not [leak for leak in LEAKS if leak in early]


def test_a_piece_whose_beginning_is_unknown_is_not_shown() -> None:
    deltas = MaskedDeltas()
    assert deltas.masked(piece("MIIEpAIBAAKCAQEA7bq2 ", 31)) is None
    assert deltas.masked(piece("one ", 0)) is not None
    assert deltas.masked(piece("of another attempt ", 4, attempt=2)) is None
    assert [one.text for one in deltas.written()] == ["one "]


def test_a_record_replaces_what_was_written() -> None:
    deltas = MaskedDeltas()
    deltas.masked(piece("one ", 0))
    deltas.masked(piece("two ", 0, key="other"))
    deltas.end(Event("r", 3, 0.0, "k", "request", AgentReturned(body=Body("0" * 32))))
    assert [one.text for one in deltas.written()] == ["two "]
    assert deltas.masked(piece("more ", 4)) is None


def test_steps_of_a_plan_are_passed_on_and_given_to_those_who_come_late() -> None:
    deltas = MaskedDeltas()
    assert deltas.masked(piece("sk-held", 0).changed(steps=("step 1: look",))) is None, "as its text is"
    shown = deltas.masked(piece(" and ", 7).changed(steps=("step 2: tell",)))
    assert shown is not None
    assert (shown.offset, shown.steps) == (0, ("step 1: look", "step 2: tell"))
    assert [one.steps for one in deltas.written()] == [shown.steps]
    last = deltas.masked(piece("more ", 12))
    assert last is not None
    assert last.steps == ()
