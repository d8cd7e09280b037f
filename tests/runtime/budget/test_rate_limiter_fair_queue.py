"""Branches take turns, in an order that depends only on the order of arrival."""

from __future__ import annotations

from collections import defaultdict, deque

from hypothesis import given, strategies as st

from teamwright.runtime.budget.rate_limiter import FairQueue

Path = tuple[str, ...]
paths = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)


def filled(*waiting: tuple[str, str]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for path, item in waiting:
        queue.push(path, item)
    return queue


def drained(queue: FairQueue[str]) -> str:
    found = ""
    while queue:
        first = queue.peek()
        found += queue.pop()
        assert found.endswith(first)
    return found


def test_within_one_branch_it_is_first_come_first_served() -> None:
    assert drained(filled(("x", "1"), ("x", "2"), ("x", "3"))) == "123"


def test_branches_take_turns_in_the_order_of_their_first() -> None:
    assert drained(filled(("x", "1"), ("x", "2"), ("x", "3"), ("y", "a"), ("z", "A"), ("y", "b"))) == "1aA2b3"


def test_a_run_of_many_branches_gets_no_more_turns_than_one_of_a_single_branch() -> None:
    many = [(f"p{number}", number) for number in "12345"]
    assert drained(filled(*many, ("q", "a"), ("q", "b"), ("q", "c"))) == "1a2b3c45"


def test_what_waits_beside_branches_is_one_more_that_takes_turns() -> None:
    assert drained(filled(("", "1"), ("", "2"), ("x", "a"), ("x", "b"))) == "1a2b"


def test_a_cancelled_waiter_loses_its_turn() -> None:
    queue = filled(("x", "1"), ("xy", "2"), ("z", "3"))
    queue.remove("x", "1")
    queue.remove("z", "3")
    assert drained(queue) == "2"
    assert not queue


@given(st.lists(st.one_of(st.just(None), st.just(-1), paths), max_size=60))
def test_all_waiters_leave_once_in_order_and_none_is_passed_over_twice(steps: list[Path | int | None]) -> None:
    """Push where there is a path, pop at `None`, take back the newest at -1."""
    queue: FairQueue[int] = FairQueue()
    waiting: defaultdict[Path, deque[int]] = defaultdict(deque)
    passed: dict[tuple[Path, str], set[str]] = {}
    for number, step in enumerate([*steps, *[None] * len(steps)]):
        live = [path for path, items in waiting.items() if items]
        if isinstance(step, tuple):
            queue.push(step, number)
            waiting[step].append(number)
        elif not live:
            assert not queue
        elif step == -1:
            newest = max(live, key=lambda path: waiting[path][-1])
            queue.remove(newest, waiting[newest].pop())
        else:
            item = queue.pop()
            path = next(path for path in live if waiting[path][0] == item)
            waiting[path].popleft()
            nobody_twice(path, waiting, passed)
        for around, name in [*passed]:
            if name not in those_who_wait(around, waiting):
                del passed[around, name]
    assert not queue


def those_who_wait(around: Path, waiting: dict[Path, deque[int]]) -> set[str]:
    """Who takes turns at a level: its branches with something waiting, and "" for what waits beside them."""
    depth = len(around)
    found = [path for path, items in waiting.items() if items and path[:depth] == around]
    return {path[depth] if len(path) > depth else "" for path in found}


def nobody_twice(served: Path, waiting: dict[Path, deque[int]], passed: dict[tuple[Path, str], set[str]]) -> None:
    """At each level, count how often the waiters beside the served one were passed over since their last turn."""
    for depth in range(len(served) + 1):
        around, name = served[:depth], served[depth] if depth < len(served) else ""
        passed[around, name] = set()
        for other in those_who_wait(around, waiting) - {name}:
            before = passed.setdefault((around, other), set())
            assert name not in before, f"{name!r} had two turns at {around} while {other!r} waited"
            before.add(name)
