"""The same request finds its run; another one with the same words does not."""

from __future__ import annotations

from teamwright import Engine
from teamwright.server.driven_runs import RETURN_SECONDS, AwaitedRuns, identity_of, run_id_of


def awaited(now: list[float]) -> AwaitedRuns:
    return AwaitedRuns(Engine("memory"), lambda: now[0])


def test_who_comes_back_finds_the_run_and_who_was_answered_asks_anew() -> None:
    now = [0.0]
    runs = awaited(now)
    first = runs.enter("x", is_kept=False, is_retry=False)
    first.run_id = "r"
    assert runs.enter("x", is_kept=False, is_retry=True) is first  # its client says that it asked before
    assert runs.enter("x", is_kept=False, is_retry=None) is first
    assert runs.enter("y", is_kept=False, is_retry=True) is not first
    for _ in range(3):
        runs.leave(first, answered=False)
    assert runs.enter("x", is_kept=False, is_retry=False) is first  # its clients have left
    runs.leave(first, answered=True)
    assert runs.enter("x", is_kept=False, is_retry=True) is first  # the answer was lost
    assert runs.enter("x", is_kept=False, is_retry=None) is not first


def test_a_second_question_while_the_first_is_open_has_a_run_of_its_own() -> None:
    runs = awaited([0.0])
    first = runs.enter("x", is_kept=False, is_retry=False)
    first.run_id = "r"
    assert runs.enter("x", is_kept=False, is_retry=False) is not first


def test_a_run_is_forgotten_after_a_while_and_one_that_never_began_at_once() -> None:
    now = [0.0]
    runs = awaited(now)
    kept, lost = runs.enter("x", is_kept=True, is_retry=None), runs.enter("y", is_kept=False, is_retry=None)
    kept.run_id = "r"
    runs.leave(kept, answered=False)
    runs.leave(lost, answered=False)
    assert runs.enter("y", is_kept=False, is_retry=None) is not lost
    now[0] = RETURN_SECONDS + 1
    assert runs.enter("x", is_kept=True, is_retry=True) is not kept


def test_a_restart_forgets_no_open_run() -> None:
    runs = awaited([0.0])
    asked, keyed = identity_of("ann", None, b"one"), run_id_of("ann", "key")
    before = awaited([0.0]).enter(asked, is_kept=False, is_retry=None)
    runs.restore([before.new_id, keyed, "20260101-000000-abcdef"])
    found = runs.enter(asked, is_kept=False, is_retry=None)
    assert (found.new_id, found.is_kept) == (before.new_id, True)
    assert (found.run_id, before.run_id) == ("", "")  # the engine compares what is asked for, and then it has its id


def test_requests_are_told_apart_by_their_sender_and_key_or_body() -> None:
    found = {
        identity_of("ann", None, b"one"),
        identity_of("ann", None, b"two"),
        identity_of("bob", None, b"one"),
        identity_of("ann", "one", b"one"),
        identity_of("ann", "two", b"one"),
        identity_of("an", "none", b""),
    }
    assert len(found) == 6
    keys = {run_id_of("ann", "one"), run_id_of("ann", "two"), run_id_of("bob", "one"), run_id_of("an", "none")}
    assert len(keys) == 4
