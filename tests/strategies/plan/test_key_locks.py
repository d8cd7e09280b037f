"""The lock table: no two holders overlap, all keys are granted at once, and no claim starves."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, strategies as st

from teamwright.strategies.plan.key_locks import Claim, LockTable
from teamwright.values.owned_paths import overlap


def going(claims: LockTable) -> list[str]:
    """The names of all that may go now, in order."""
    found: list[str] = []
    while (claim := claims.grant_next()) is not None:
        found.append(claim.name)
    return found


def test_claims_that_share_nothing_go_at_once_and_the_others_one_after_the_other() -> None:  # Z-05
    claims = LockTable()
    a, b, c = (claims.add(name, keys) for name, keys in (("a", "xy"), ("b", "y"), ("c", "z")))
    assert going(claims) == ["a", "c"]
    claims.release(c)
    assert going(claims) == []
    claims.release(a)
    assert going(claims) == ["b"]
    assert b.state == "held"


def test_the_highest_priority_goes_first_and_then_the_first_waiter() -> None:  # Z-05
    claims = LockTable()
    first = claims.add("first", "k")
    assert going(claims) == ["first"]
    for name, priority in (("low", 1), ("high", 5), ("also", 5), ("lower", 0)):
        claims.add(name, "k", priority)
    order: list[str] = []
    held: Claim | None = first
    while held is not None:
        claims.release(held)
        held = claims.grant_next()
        order.append(held.name if held else "")
    assert order == ["high", "also", "low", "lower", ""]


def test_a_waiter_for_two_keys_is_not_starved_by_takers_of_one_of_them() -> None:  # Z-05
    """The later ones want a key that is free, and must wait all the same: it is promised."""
    claims = LockTable()
    busy = claims.add("busy", "a")
    assert going(claims) == ["busy"]
    claims.add("both", "ab", 1)
    claims.add("taker", "b", 0)
    assert going(claims) == []
    claims.add("urgent", "b", 9)
    assert going(claims) == ["urgent"]
    claims.release(busy)
    assert going(claims) == []


def test_a_cancelled_waiter_blocks_no_other() -> None:
    claims = LockTable()
    claims.add("a", "x")
    assert going(claims) == ["a"]
    both = claims.add("both", "xy", 5)
    claims.add("b", "y")
    assert going(claims) == []
    claims.release(both)
    assert going(claims) == ["b"]


def test_each_wait_is_reported_once_with_key_and_owner() -> None:
    claims = LockTable()
    claims.add("a", ["src/**"])
    assert going(claims) == ["a"]
    b = claims.add("b", ["src/x.py", "free"])
    assert going(claims) == []
    assert [one.name for one in claims.held_up] == ["b"]
    keys, ahead = claims.ahead_of(b)
    assert (list(keys), [one.name for one in ahead]) == (["src/x.py"], ["a"])


@dataclass
class Run:
    """A lock table driven as a schedule drives it: every claim that can be granted starts, and one ends at a time."""

    claims: LockTable = field(default_factory=LockTable)
    held: list[Claim] = field(default_factory=list[Claim])
    waiting: list[Claim] = field(default_factory=list[Claim])
    done: list[str] = field(default_factory=list[str])

    def add(self, name: str, keys: list[str], priority: int) -> None:
        self.waiting.append(self.claims.add(name, keys, priority))
        self.let_go()

    def end(self, place: int) -> None:
        ended = self.held.pop(place % len(self.held))
        self.done.append(ended.name)
        self.claims.release(ended)
        self.let_go()

    def let_go(self) -> None:
        while (claim := self.claims.grant_next()) is not None:
            assert not any(overlap(key, other) for one in self.held for key in claim.keys for other in one.keys)
            self.waiting.remove(claim)
            self.held.append(claim)
        self.check_that_everybody_waits_for_a_reason()

    def check_that_everybody_waits_for_a_reason(self) -> None:
        for claim in self.waiting:
            ahead = [*self.held, *(one for one in self.waiting if one.rank < claim.rank)]
            assert any(overlap(key, other) for one in ahead for key in claim.keys for other in one.keys)
            _, told = self.claims.ahead_of(claim)
            assert told
            assert all(one in ahead for one in told)


KEYS = st.lists(st.sampled_from(["a", "b", "c", "d/x", "d/y", "d/**", "d/*", "**"]), max_size=3)


@given(st.lists(st.tuples(KEYS, st.integers(0, 2), st.integers(0, 9)), max_size=25))
def test_claims_never_overlap_and_never_wait_without_reason(plan: list[Any]) -> None:  # Z-05
    run = Run()
    for number, (keys, priority, ending) in enumerate(plan):
        run.add(str(number), keys, priority)
        if ending > 4 and run.held:
            run.end(ending)
    while run.held:
        run.end(0)
    assert not run.waiting
    assert sorted(run.done, key=int) == [str(number) for number in range(len(plan))]


def calls_for(size: int) -> int:
    """How many functions are called while so many claims on one key, and on two, are worked on."""
    count = 0

    def profile(*_: object) -> None:
        nonlocal count
        count += 1

    claims = LockTable()
    for number in range(size):
        claims.add(str(number), ["k"] if number % 2 else ["k", "other"], number % 7)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        while (claim := claims.grant_next()) is not None:
            claims.release(claim)
    finally:
        sys.setprofile(before)
    assert claims.grant_next() is None
    return count


def test_a_release_does_not_scan_all_waiters() -> None:  # Z-05
    assert calls_for(4000) < 4.5 * calls_for(1000)
