"""The bus: every listener receives every event, in order, for as long as it listens."""

from __future__ import annotations

from teamwright.runtime.event_publisher import Bus
from teamwright.values.events.event import Delta, Event
from teamwright.values.events.run import Custom


def event(number: int) -> Event:
    return Event("r", number, 0.0, "", "", Custom(domain="d", name="n"))


DELTA = Delta(run_id="r", key="k", member="m", attempt=1, offset=0, text="x")


def test_listeners_receive_events_and_deltas_in_order() -> None:
    bus, first, second = Bus(), list[object](), list[object]()
    with bus.listening(first.append), bus.listening(second.append):
        bus.publish([event(1), event(2)])
        bus.publish_delta(DELTA)
    assert first == second == [event(1), event(2), DELTA]


def test_a_removed_listener_receives_nothing_more() -> None:
    bus, heard = Bus(), list[object]()
    with bus.listening(heard.append):
        assert bus.is_followed("r")
        bus.publish([event(1)])
    bus.publish([event(2)])
    bus.publish_delta(DELTA)
    assert heard == [event(1)]
    assert not bus.is_followed("r")


def test_a_listener_may_leave_while_an_event_is_handed_out() -> None:
    bus, heard = Bus(), list[object]()
    with bus.listening(heard.append):

        def once(_: object) -> None:
            leaving.__exit__(None, None, None)

        leaving = bus.listening(once)
        leaving.__enter__()
        bus.publish([event(1), event(2)])
    assert heard == [event(1), event(2)]


def test_a_listener_of_one_run_receives_its_events_alone() -> None:
    bus, heard = Bus(), list[object]()
    with bus.listening(heard.append, "r"):
        assert bus.is_followed("r")
        assert not bus.is_followed("other")
        bus.publish([event(1), Event("other", 1, 0.0, "", "", Custom(domain="d", name="n"))])
        bus.publish_delta(DELTA)
    assert heard == [event(1), DELTA]
    assert not bus.is_followed("r")
