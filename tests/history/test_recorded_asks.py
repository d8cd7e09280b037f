"""Which asks gave way on a fork, and which only were followed by another attempt."""

from __future__ import annotations

import pytest

from teamwright.history.recorded_asks import RecordedAsk, superseded_asks
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied

COPIED = 9
REPLIED = AgentReplied()


def failed(error: str = "server") -> AgentFailed:
    return AgentFailed(member="m", error=error, message="")


def ask(member: str, digest: str, ending: AgentReplied | AgentFailed | None, *, copied: bool = True) -> RecordedAsk:
    asked = AgentAsked(member=member, member_kind="model", turn=1, task="b", length=0, digest=digest)
    return RecordedAsk(asked, 0.0, COPIED if copied else COPIED + 1, ending)


def gone(*asks: RecordedAsk, recovered: tuple[str, str, str] | None = None) -> list[int]:
    """The attempts at one place that gave way."""
    attempts = {f"t/round-1/k#{number}" if number > 1 else "t/round-1/k": one for number, one in enumerate(asks, 1)}
    found = superseded_asks(attempts, {recovered} if recovered else set(), COPIED)
    return [number for number, key in enumerate(attempts, 1) if key in found]


@pytest.mark.parametrize("ending", [REPLIED, failed(), None])
def test_an_ask_of_another_member_or_with_another_turn_is_superseded(ending: AgentReplied | AgentFailed | None) -> None:
    assert gone(ask("m", "d", ending), ask("m", "other", REPLIED, copied=False)) == [1]
    assert gone(ask("m", "d", ending), ask("n", "d", REPLIED, copied=False)) == [1]


def test_a_failure_after_which_another_attempt_was_made_stands() -> None:
    new = ask("n", "d", REPLIED, copied=False)
    assert gone(ask("m", "d", failed()), ask("m", "d", REPLIED, copied=False)) == []
    assert gone(ask("m", "d", failed()), new, recovered=("t", "server", "n")) == []
    assert gone(ask("m", "d", failed()), new, recovered=("t", "timeout", "n")) == [1]
    assert gone(ask("m", "d", failed()), new, recovered=("t", "server", "o")) == [1]
    assert gone(ask("m", "d", failed()), new, recovered=("other", "server", "n")) == [1]


def test_a_failure_goes_with_the_attempt_that_followed_it() -> None:
    attempts = [ask("m", "d", failed()), ask("n", "d", REPLIED), ask("m", "other", REPLIED, copied=False)]
    assert gone(*attempts, recovered=("t", "server", "n")) == [1, 2]
    shorter = [ask("m", "d", failed()), ask("m", "less", REPLIED), ask("m", "other", REPLIED, copied=False)]
    assert gone(*shorter, recovered=("t", "server", "m")) == [1, 2]


def test_what_a_fork_asked_itself_never_gives_way() -> None:
    attempts = [ask("m", "d", REPLIED), ask("m", "other", failed(), copied=False), ask("n", "x", REPLIED, copied=False)]
    assert gone(*attempts) == [1]


def test_an_ask_superseded_on_a_fork_is_superseded_on_its_forks() -> None:
    assert gone(ask("m", "d", REPLIED), ask("m", "other", REPLIED)) == [1]
