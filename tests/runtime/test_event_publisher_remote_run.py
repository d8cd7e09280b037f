"""A follower passes on pieces in their place, whatever is lost, late, repeated or forged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, strategies as st

from teamwright.runtime import event_publisher as remote_run
from teamwright.runtime.event_publisher import HEARD_CHARACTERS, MOST_HEARD, Bus, Relay, RemoteRun, followers_channel
from teamwright.runtime.transport import InProcessTransport, LiveSignal
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.event import Event


def text(sequence: int, words: str, offset: int, *, number: int = 1, key: str = "k", attempt: int = 1) -> LiveSignal:
    return LiveSignal(
        type="text",
        run_id="r",
        number=number,
        sequence=sequence,
        text=words,
        key=key,
        attempt=attempt,
        offset=offset,
    )


def returned(number: int, key: str = "k") -> Event:
    return Event("r", number, 0.0, key, "request", AgentReturned(body=Body("0" * 32)))


class Wire:
    """A follower and the transport that it hears."""

    def __init__(self) -> None:
        self.transport, self.relay, self.woken = InProcessTransport(), Relay(Bus()), 0

    def wake(self) -> None:
        self.woken += 1

    async def send(self, *signals: LiveSignal) -> None:
        for signal in signals:
            await self.transport.send("r", signal)


@pytest.fixture
async def wire() -> AsyncIterator[tuple[Wire, RemoteRun]]:
    made = Wire()
    with made.relay.over(made.transport), RemoteRun(made.relay, "r", made.wake) as remote:
        yield made, remote


def words(remote: RemoteRun, number: int) -> list[str]:
    return [delta.text for delta in remote.deltas(number)]


async def test_a_piece_waits_for_the_events_before_it(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    await made.send(text(1, "a", 0, number=5))
    assert made.woken == 1
    assert words(remote, 4) == []
    assert remote.is_ahead(4)
    assert words(remote, 5) == ["a"]
    assert not remote.is_ahead(5)


async def test_a_piece_that_comes_after_its_recorded_response_is_dropped(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    remote.note(returned(7))
    await made.send(
        text(1, "late", 0, number=6), text(2, "other", 0, number=6, key="other"), text(3, "next", 0, number=8)
    )
    assert words(remote, 8) == ["other", "next"]


async def test_after_a_lost_piece_a_part_is_left_out_until_another_begins(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    await made.send(
        text(1, "a", 0), text(3, "c", 2), text(4, "d", 3), text(5, "e", 0, attempt=2), text(6, "f", 1, attempt=2)
    )
    assert words(remote, 1) == ["a", "e", "f"]


async def test_a_part_whose_beginning_was_not_heard_is_left_out(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    await made.send(text(8, "c", 2), text(9, "d", 3))
    assert words(remote, 1) == []


async def test_the_text_so_far_is_for_the_follower_that_asked_for_it(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    asked: list[LiveSignal] = []

    async def hear(signal: LiveSignal) -> None:
        asked.append(signal)

    made.transport.register(followers_channel("r"), hear)
    sending = asyncio.create_task(made.relay.send_all())
    remote.ask()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    sending.cancel()
    (mine,) = {one.follower for one in asked}
    await made.send(
        text(3, "c", 2),
        text(4, "abc", 0).changed(follower="another"),
        text(5, "abc", 0).changed(follower=mine),
        text(6, "d", 3),
    )
    assert words(remote, 1) == ["abc", "d"]


async def test_pieces_of_a_driver_that_was_replaced_are_dropped(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    await made.send(text(1, "a", 0), text(1, "A", 0, attempt=2), text(2, "b", 1), text(2, "B", 1, attempt=2))
    assert words(remote, 1) == ["a", "A"]


async def test_a_forged_wake_up_is_believed_once_in_a_while(
    wire: tuple[Wire, RemoteRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, remote = wire
    monkeypatch.setattr(remote_run, "DISTRUST_SECONDS", 60.0)
    forged = LiveSignal(type="wake", run_id="r", number=10**9)
    await made.send(forged, text(1, "forged", 0, number=10**9))
    assert remote.is_ahead(3)
    remote.begin_read()
    remote.end_read(3)
    await made.send(forged)
    assert not remote.is_ahead(3)
    assert words(remote, 10**9) == []


async def test_what_is_for_another_run_or_without_a_sequence_is_ignored(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    await made.send(text(1, "a", 0).changed(run_id="other"), text(0, "b", 0), LiveSignal(type="follow", run_id="r"))
    assert words(remote, 9) == []


async def test_what_waits_for_a_follower_is_bounded(wire: tuple[Wire, RemoteRun]) -> None:
    made, remote = wire
    for sequence in range(1, MOST_HEARD + 100):
        await made.send(text(sequence, "x", sequence - 1))
    assert len(words(remote, 1)) == MOST_HEARD
    for sequence in range(1, 100):
        await made.send(text(sequence, "x" * (HEARD_CHARACTERS // 10), sequence - 1))
    assert len(vars(remote)["_heard"]) <= 11


@given(st.sets(st.integers(1, 30)), st.integers(1, 6))
def test_what_is_shown_of_a_part_never_has_a_gap(lost: set[int], length: int) -> None:
    remote = RemoteRun(Relay(Bus()), "r", lambda: None)
    for sequence in range(1, 31):
        if sequence not in lost:
            key = str((sequence - 1) // length)
            vars(remote)["_heard"].append(text(sequence, str(sequence), (sequence - 1) % length, key=key))
    shown: dict[str, list[int]] = {}
    for delta in remote.deltas(1):
        shown.setdefault(delta.key, []).append(int(delta.text))
    for key, numbers in shown.items():
        first = int(key) * length + 1
        assert numbers == list(range(first, first + len(numbers)))
