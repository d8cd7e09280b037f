"""Messages between processes are data of bounded size, and names of channels tell nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.cluster.redis_transport import (
    LARGEST_MESSAGE,
    WireMessage,
    decode_message,
    encode_message,
    wire_channel,
)
from teamwright.runtime.transport import LiveSignal
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, ThinkingDelta

WAKE = LiveSignal(type="wake", run_id="r", number=3)


def test_a_message_is_read_as_it_was_sent() -> None:
    data = encode_message("me", WAKE)
    assert data == b'{"sender":"me","signal":{"type":"wake","run_id":"r","number":3}}'
    assert decode_message(data) == WireMessage("me", WAKE)


def test_a_message_that_is_too_large_is_neither_sent_nor_read() -> None:
    assert encode_message("me", WAKE.changed(text="x" * LARGEST_MESSAGE)) is None
    assert decode_message(b'{"sender":"me","signal":{"type":"wake","run_id":"%s"}}' % (b"x" * LARGEST_MESSAGE)) is None


@given(st.binary(max_size=200) | st.none() | st.integers())
def test_what_is_no_message_is_read_as_none(data: object) -> None:
    assert decode_message(data) is None


def test_the_name_of_a_channel_shows_neither_run_nor_namespace() -> None:
    name = wire_channel("0/tenant", "merger-with-acme")
    assert name.startswith("teamwright:")
    assert "acme" not in name
    assert "tenant" not in name
    assert name != wire_channel("0/other", "merger-with-acme")


@pytest.mark.parametrize(
    "piece",
    [
        Delta(run_id="r", key="k", member="m", attempt=1, offset=3, text="so", output="wrapped"),
        ThinkingDelta(run_id="r", key="k", member="m", attempt=1, offset=0, text="hm"),
        ArgumentsDelta(run_id="r", key="k", member="m", attempt=2, offset=0, text="{", tool="search", call=1),
    ],
)
def test_a_piece_of_a_response_is_the_same_after_its_way(piece: AnyDelta) -> None:
    signal = LiveSignal.of_delta(piece, number=7, sequence=3)
    assert (signal.type, signal.number, signal.sequence) == ("text", 7, 3)
    assert signal.to_delta() == piece
