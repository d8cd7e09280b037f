"""The parts of a team's work that run side by side: what came of each, and what a failed one does to the rest.

Replies are kept by the names of their parts, so that the order in which they come changes nothing that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.errors import ExpressionFailed
from teamwright.strategies.protocol import Task
from teamwright.strategies.talk import Talk
from teamwright.values.models import Value
from teamwright.values.results import Outcome
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Purpose, Reply, Turn

MOST_NAMED = 5
BUDGET = "budget"
"""What a part fails with that its budget does not pay for."""
WORK = "work"
"""The key of a part's one ask, within the branch that bears the part's name."""


class FailurePolicy(Value):
    """What a failed part does to the others. The failure of an optional member is skipped where it would fail."""

    on_failure: Literal["fail", "skip", "collect"] = Field(
        default="fail",
        description="`fail`: the team fails when the others are done; `skip`: it goes on without the failed one;"
        " `collect`: it goes on, and whoever builds on the failed one is told that it failed, though never why",
    )
    cancel_others: bool = Field(default=False, description="with `on_failure: fail`, the first failure stops the rest")

    @model_validator(mode="after")
    def _only_a_failure_stops(self) -> Self:
        if self.cancel_others and self.on_failure != "fail":
            raise ValueError(f"cancel_others goes with on_failure: fail, not with {self.on_failure!r}")
        return self


class Parts:
    """What came of each part so far. When it is over, no further part is begun."""

    def __init__(self, policy: FailurePolicy) -> None:
        self._policy = policy
        self.replies: dict[str, Reply] = {}
        self.failures: dict[str, Failure] = {}
        self.over = False
        self._last: str | None = None

    async def work(self, name: str, member: Agent, tell: Callable[[], Turn], ctx: Context) -> None:
        """Like `ask`, with a turn that is made when its time has come; where it can't be made, the part fails."""
        if self.over:
            return
        try:
            turn = tell()
        except ExpressionFailed as error:
            self.fail(name, Failure(member=member.name, error=error.kind, message=str(error)))
        else:
            self._hear(name, await ctx.ask(member, turn, key=WORK))

    async def ask(self, name: str, member: Agent, turn: Turn, ctx: Context) -> None:
        """Let a member work on the part of this name; to be called in a branch of its own."""
        if not self.over:
            self._hear(name, await ctx.ask(member, turn, key=WORK))

    def _hear(self, name: str, ending: Reply | Failure) -> None:
        if isinstance(ending, Failure):
            self.fail(name, ending)
        else:
            self.take(name, ending)

    def take(self, name: str, reply: Reply) -> None:
        """Take in what came of the part of this name."""
        self.replies[name] = reply
        if reply.signal == "terminate" and self._last is None:
            self._last, self.over = name, True

    def fail(self, name: str, failure: Failure) -> None:
        """Take in that the part of this name failed."""
        self.failures[name] = failure
        self.over = self.over or (self._policy.cancel_others and self.is_fatal(name))

    def is_fatal(self, name: str) -> bool:
        """Whether the part of this name failed, so that the team fails."""
        failure = self.failures.get(name)
        return failure is not None and self._policy.on_failure == "fail" and not failure.optional

    def end(self, talk: Talk, order: Iterable[str], *, need_one: bool = True) -> Outcome | None:
        """Put what was said into the talk, in this order; the outcome, if the work ends with the parts.

        Whoever terminated the team has the last word; a failure that came before and fails the team still does. With
        `need_one`, no reply at all is nothing to go on with.
        """
        failed, count = list[str](), 0
        for count, name in enumerate(order, start=1):  # noqa: B007 - how many there are is needed below
            if name in self.failures:
                failed.append(name)
            elif name in self.replies and name != self._last:
                talk.add(self.replies[name])
        if self._last is not None:
            talk.add(self.replies[self._last])
        unpaid = [name for name in failed if self.failures[name].error == BUDGET]
        broken = [name for name in failed if name not in unpaid]
        fatal = [name for name in (*broken, *unpaid) if self.is_fatal(name)]
        if fatal or (need_one and failed and not self.replies):
            names = fatal or [*broken, *unpaid]
            return talk.failed(self._unpaid(unpaid, count) if names == unpaid else self._failure(names))
        talk.warnings += [f"{name}: {text}" for name in broken for text in self.failures[name].skipped]
        if unpaid:
            talk.short_of_budget = True
            short = self._unpaid(unpaid, count)
            talk.warnings += (short.message, *short.warnings)
        return None if self._last is None else talk.ended("terminated")

    def _failure(self, names: list[str]) -> Failure:
        """The first failure, with which part it was and which others failed too."""
        first, others = self.failures[names[0]], names[1:]
        where = names[0]
        if others:
            where += f"; {len(others)} more failed: {_listed(others)}"
        return first.changed(message=f"{first.message} ({where})", optional=False, warnings=self._warnings(names))

    def _unpaid(self, names: list[str], count: int) -> Failure:
        """That the budget did not pay for these parts, and why not for the first of them."""
        first = self.failures[names[0]]
        if len(names) == count == 1:
            return first.changed(optional=False)
        text = f"{len(names)} of {count} parts were not afforded ({_listed(names)}): {first.message}"
        return Failure(member="", error=BUDGET, message=text, messages=first.messages, warnings=self._warnings(names))

    def _warnings(self, names: Iterable[str]) -> tuple[str, ...]:
        """What the teams among these parts warned of before they failed."""
        return tuple(text for name in names for text in self.failures[name].warnings)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def result_of(reply: Reply) -> JsonValue:
    """What a part came to: its data, where it has some, or else its text; in full, for results."""
    full = reply.full
    return full.text if full.data is None else full.data


def part_turn(
    task: Task,
    number: int,
    before: Iterable[Message],
    output: Callable[[], str] | None,
    *,
    own: str | None = None,
    purpose: Purpose = "work",
) -> Turn:
    """What is told to whoever works on a part: what came before it, and last its own task or else the team's.

    With `share: output` it is told only `output`, as its task, or what came before it and its own task. Where nothing
    came before, `output` is none, and it is told the task.
    """
    if output is not None and task.settings.share == "output":
        if own is None:
            return Turn(output(), number=number, purpose=purpose)
        return Turn(own, History.of(before), number, purpose)
    if own is None:
        return Turn(task.text, History.of((*task.history, *before)), number, purpose)
    asked = Message(name="user", content=task.text, role="user")
    return Turn(own, History.of((*task.history, asked, *before)), number, purpose)
