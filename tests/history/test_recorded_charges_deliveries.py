"""The deliveries of a replay: in journal order, without what an ending covers."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.history.recorded_charges import RecordedDeliveries
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunLogged
from teamwright.values.run_keys import is_inside, join_key

SCOPE = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)


def event(scope: str, place: str, number: int) -> Event:
    return Event("r", number, float(number), scope, place, RunLogged(text="x"))


def test_each_key_is_due_once_with_the_event_that_came_last() -> None:
    deliveries = RecordedDeliveries()
    first, second = event("t", "s", 1), event("t", "q", 2)
    deliveries.add(first, "t/s")
    deliveries.add(second, "t/q")
    assert deliveries.due == ["t/s", "t/q"]
    assert deliveries.arrivals == {"t/s": first, "t/q": second}
    assert "t/s" in deliveries
    assert "t/x" not in deliveries


@given(st.lists(SCOPE, max_size=12), SCOPE)
def test_removing_a_scope_leaves_what_is_outside_in_its_order(scopes: list[str], removed: str) -> None:
    deliveries = RecordedDeliveries()
    keys: list[str] = []
    for number, scope in enumerate(scopes, start=1):
        keys.append(join_key(scope, f"e{number}"))
        deliveries.add(event(scope, f"e{number}", number), keys[-1])
    deliveries.remove_inside(removed)
    assert deliveries.due == [key for key in keys if not is_inside(key, removed)]
