"""Parts of a team's work that run concurrently: where they run, their results, and what a failed part does to others.

Replies are stored by the names of their parts, so the order in which they arrive changes no prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field, JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.errors import ExpressionFailed
from teamwright.strategies.protocol import Task
from teamwright.strategies.team_conversation import BUDGET, TeamConversation
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Purpose, Reply, Turn
from teamwright.values.value import Value

MOST_NAMED = 5
WORK = "work"
"""The key of the one ask of a part, within the branch named after the part."""

PartWork = Callable[[Context, Agent, Turn], Awaitable[Reply | Failure]]
"""Lets a member work on a part, and returns how that ended."""
Placement = Literal["here", "workers"]

OnFailure = Literal["fail", "cancel", "skip", "collect"]


class FailurePolicy(Value):
    """What a failed part does to the others. Where it would fail the team, an optional member is skipped."""

    on_failure: OnFailure = Field(
        default="fail",
        description="`fail`: the team fails once the others are done; `cancel`: it fails at once, and stops the others;"
        " `skip`: it continues without the failed part; `collect`: it continues, and dependents see that the part"
        " failed, but not why",
    )

    @property
    def fails(self) -> bool:
        """Whether a failed part fails the team, at once or once the others are done."""
        return self.on_failure in ("fail", "cancel")


class PlacedParts(Value):
    """The option of a strategy whose branches may be placed on workers. The engine carries it out."""

    placement: Placement = Field(
        default="here",
        description="where each branch runs: `here`, in the process of the run, or as a run of its own on `workers`,"
        " which needs a journal in Postgres",
    )


class PartResults:
    """The results of the parts so far. Once it `is_over`, no further part starts."""

    def __init__(self, policy: FailurePolicy) -> None:
        self._policy = policy
        self.replies: dict[str, Reply] = {}
        self.failures: dict[str, Failure] = {}
        self.required: Collection[str] = ()
        """The parts without which the team fails, whatever the policy says."""
        self.is_over = False
        self.terminated_by: str | None = None
        """The part whose reply has ended the team."""

    async def run(
        self,
        name: str,
        member: Agent,
        make_turn: Callable[[], Turn],
        ctx: Context,
        work: PartWork | None = None,
    ) -> None:
        """Like `ask`, with a turn that is built when the part starts; if building it fails, the part fails.

        `work` asks the member however often it takes; by default once.
        """
        if self.is_over:
            return
        try:
            turn = make_turn()
        except ExpressionFailed as error:
            self.fail(name, Failure(member=member.name, error=error.kind, message=str(error)))
        else:
            ending = await (ctx.ask(member, turn, key=WORK) if work is None else work(ctx, member, turn))
            self._receive(name, ending)

    async def ask(self, name: str, member: Agent, turn: Turn, ctx: Context) -> None:
        """Let a member work on a part. Call it in a branch of its own."""
        if not self.is_over:
            self._receive(name, await ctx.ask(member, turn, key=WORK))

    def _receive(self, name: str, ending: Reply | Failure) -> None:
        if isinstance(ending, Reply):
            self.add(name, ending)
        else:
            self.fail(name, ending)

    def add(self, name: str, reply: Reply) -> None:
        self.replies[name] = reply
        if reply.signal == "terminate" and self.terminated_by is None:
            self.terminated_by, self.is_over = name, True

    def fail(self, name: str, failure: Failure) -> None:
        self.failures[name] = failure
        self.is_over = self.is_over or (self._policy.on_failure == "cancel" and self.is_fatal(name))

    def is_fatal(self, name: str) -> bool:
        """Return whether the part failed in a way that fails the team."""
        failure = self.failures.get(name)
        if failure is None:
            return False
        return name in self.required or (self._policy.fails and not failure.optional)

    def finish(
        self,
        talk: TeamConversation,
        order: Iterable[str],
        *,
        need_one: bool = True,
        closes: bool = False,
        before: Mapping[str, Sequence[Reply]] | None = None,
    ) -> Outcome | None:
        """Add the replies to the conversation in this order; return the outcome if the team ends here.

        A reply that terminates the team comes last; an earlier fatal failure still fails the team. With `need_one`, the
        team also fails if there is no reply at all. With `closes`, a closing ask follows: parts that the budget did not
        cover do not fail the team. `before` are replies that precede that of a part.
        """
        failed, count = list[str](), 0
        for count, name in enumerate(order, start=1):  # noqa: B007 - the count is used below
            for reply in before.get(name, ()) if before else ():
                talk.add(reply)
            if name in self.failures:
                failed.append(name)
            elif name in self.replies and name != self.terminated_by:
                talk.add(self.replies[name])
        if self.terminated_by is not None:
            talk.add(self.replies[self.terminated_by])
        unpaid = [name for name in failed if self.failures[name].error == BUDGET]
        broken = [name for name in failed if name not in unpaid]
        fatal = [name for name in (broken if closes else (*broken, *unpaid)) if self.is_fatal(name)]
        if fatal or (need_one and failed and not self.replies):
            names = fatal or [*broken, *unpaid]
            return talk.failed(self._unpaid(unpaid, count) if names == unpaid else self._failure(names))
        talk.warnings += [f"{name}: {text}" for name in broken for text in self.failures[name].skipped]
        if unpaid:
            talk.short_of_budget = True
            short = self._unpaid(unpaid, count)
            talk.warnings += (short.message, *short.warnings)
        return None if self.terminated_by is None else talk.ended("terminated")

    def _failure(self, names: list[str]) -> Failure:
        """Return the first failure, with its part and the other parts that failed."""
        first, others = self.failures[names[0]], names[1:]
        where = names[0]
        if others:
            where += f"; {len(others)} more failed: {_listed(others)}"
        return first.changed(message=f"{first.message} ({where})", optional=False, warnings=self._warnings(names))

    def _unpaid(self, names: list[str], count: int) -> Failure:
        """Return the failure for parts that the budget did not cover, with the reason for the first."""
        first = self.failures[names[0]]
        if len(names) == count == 1:
            return first.changed(optional=False)
        text = f"{len(names)} of {count} parts were not afforded ({_listed(names)}): {first.message}"
        return Failure(member="", error=BUDGET, message=text, messages=first.messages, warnings=self._warnings(names))

    def _warnings(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the warnings of nested teams that failed."""
        return tuple(text for name in names for text in self.failures[name].warnings)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def result_of(reply: Reply) -> JsonValue:
    """Return the result of a part for outcomes: its data if it has some, or else its text, in full."""
    full = reply.full
    return full.text if full.data is None else full.data


def part_turn(
    task: Task,
    number: int,
    inputs: Iterable[Message],
    output: Callable[[], str] | None,
    *,
    own_task: str | None = None,
    purpose: Purpose = "work",
) -> Turn:
    """Return the turn of a part: its inputs, then its own task or else the task of the team.

    With `share: output` the turn contains only `output`, as the task, or the inputs and the own task of the part.
    Without inputs `output` is None, and the turn contains the task of the team.
    """
    if output is not None and task.settings.share == "output":
        if own_task is None:
            return Turn(output(), number=number, purpose=purpose)
        files = task.attachments if task.text in own_task else ()  # its template contains the task
        return Turn(own_task, History.of(inputs), number, purpose, attachments=files)
    if own_task is None:
        history = History.of((*task.history, *inputs))
        return Turn(task.text, history, number, purpose, attachments=task.attachments)
    return Turn(own_task, History.of((*task.history, task.message, *inputs)), number, purpose)
