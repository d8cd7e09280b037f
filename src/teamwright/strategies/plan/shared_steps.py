"""Steps that several members work on: each on a part, which the lead puts together, or all on the same task.

Of a competition one answer counts. How it is found is not decided here: that is a port, which an optional part fills.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.step_board import as_message
from teamwright.strategies.plan.step_work import Work
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.plan import Part, Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Turn
from teamwright.wings import required_hook

ASSEMBLE = (
    "Your team worked on a step of its plan in parts; the results of the parts are above. Put them together to one"
    " result of the step."
)
TurnFor = Callable[[str, str | None], Turn]
"""Returns the turn of a member, with the task of the step or another one."""
AskForWork = Callable[[Agent, Turn, str, Context, str | None], Awaitable[Work | Failure]]
"""Asks a member for work under a key; with a task of its own, if it has one."""
MergeEntries = Callable[["Entries", Context], Awaitable[Work | Failure]]


@dataclass(slots=True)
class SharedStep:
    """One attempt at a step of several members; `prefix` begins the keys of its asks."""

    state: PlanState
    step: Step
    number: int
    prefix: str
    turn_for: TurnFor
    work_of: AskForWork
    done_parts: dict[tuple[str, Part, str | None], Work]
    """The parts that are done stay so: another attempt asks only for those that are new, changed or failed."""
    closes: bool = False
    """Whether the team closes with this step."""

    @property
    def width(self) -> int:
        """How many of its members work at once."""
        return self.state.options.width_for(self.state.members)

    async def run(self, ctx: Context) -> Work | Failure:
        """Let all work, and make one result of what they give."""
        if self.step.parallel == "competitive_parallel":
            names = self.step.workers(self.state.team.roster)
            with ctx.keep_back(self._merge_asks(names), closes=self.closes):
                return await self._compete(names, ctx)
        names = dict.fromkeys(self.step.workers(self.state.team.roster) or self.state.team.names)
        parts = self.step.parts or tuple(Part(id=name, agent=name) for name in names)
        closing = [ClosingAsk(self.state.team.lead.name, len(parts))] if len(parts) > 1 else []
        with ctx.keep_back(closing, closes=self.closes):
            return await self._in_parts(parts, ctx)

    async def ask(self, member: Agent, task: str | None, place: int, at: str, ctx: Context) -> Work | Failure:
        """Ask a member for work; `at` is the branch of the step in which the context is."""
        own = None if task is None else self.state.outputs.own_task(self.step, task)
        work = await self.work_of(member, self.turn_for(member.name, task), WORK, ctx, own)
        if isinstance(work, Failure):
            return work
        self.state.add(self.step.id, self.number, place, work.reply)
        return replace(work, key=f"{at}/{work.key}")

    async def ask_lead(self, text: str, results: Sequence[Message], key: str, ctx: Context) -> Work | Failure:
        """Let the lead make one result of several."""
        state = self.state
        history = [*state.inputs_of(self.step), *results]
        turn = state.lead_turn(f"{text}\n\n{state.about(self.step)}", history, closing=True)
        key = f"{self.prefix}{key}"
        reply = await ctx.ask(state.team.lead, turn, key=key)
        if isinstance(reply, Failure):
            return reply
        return Work(state.team.lead, turn, key, reply)

    async def _in_parts(self, parts: Sequence[Part], ctx: Context) -> Work | Failure:
        done: dict[str, Work] = {}
        failed: dict[str, Failure] = {}
        async with ctx.branches(self.width) as branches:
            for place, part in enumerate(parts, start=1):
                # The only part is the work on the step, which did not pass.
                if len(parts) > 1 and (kept := self.done_parts.get(self._key_of(part))) is not None:
                    done[part.id] = kept
                else:
                    at = f"{self.prefix}part-{place}"
                    branches.start(at, partial(self._do_part, part, place, at, done, failed))
        if fatal := [name for name, failure in failed.items() if not failure.optional]:
            return _failure(parts, failed, fatal)
        for failure in failed.values():
            self.state.go_on_without(failure)
        in_order = [part.id for part in parts if part.id in done]
        if not in_order:
            return _failure(parts, failed, list(failed))
        if len(parts) == 1:
            return done[in_order[0]]
        results = [as_message(name, done[name].reply) for name in in_order]
        return await self.ask_lead(ASSEMBLE, results, "assemble", ctx)

    async def _do_part(
        self, part: Part, place: int, at: str, done: dict[str, Work], failed: dict[str, Failure], ctx: Context
    ) -> None:
        member = self.state.members.named(part.agent)
        work = await self.ask(member, part.task, place, at, ctx)
        if isinstance(work, Failure):
            failed[part.id] = work
        else:
            done[part.id] = self.done_parts[self._key_of(part)] = work

    def _key_of(self, part: Part) -> tuple[str, Part, str | None]:
        """Return what makes a part the same in another attempt: with its task, which may be that of the step."""
        return self.step.id, part, self.state.outputs.task_text(self.step) if part.task is None else None

    def _merge_asks(self, names: Sequence[str]) -> list[ClosingAsk]:
        """Return the asks that make one of the answers of these competitors: of the lead, or the votes of all."""
        if len(names) == 1:
            return []
        count = len(names) if self.step.enough is None else min(self.step.enough, len(names))
        asked = [self.state.team.lead.name, *(self.state.team.names if self.step.merge == "vote" else ())]
        return [ClosingAsk(name, count) for name in asked] if count > 1 else []

    async def _compete(self, names: Sequence[str], ctx: Context) -> Work | Failure:
        """Let all compete until there are enough answers, and make one of them."""
        entries = Entries(self, {}, {})
        enough = self.step.enough
        async with ctx.branches(
            self.width, until=lambda: enough is not None and len(entries.works) >= enough
        ) as branches:
            for place, name in enumerate(names, start=1):
                at, member = f"{self.prefix}entry-{place}", self.state.members.named(name)
                branches.start(at, partial(self._enter, entries, member, place, at))
        if not entries.works:
            first = entries.failed[min(entries.failed)]
            return first.changed(message=f"{first.message} (all {len(names)} competitors failed)", optional=False)
        for _, failure in sorted(entries.failed.items()):
            self.state.go_on_without(failure)
        entries.works = dict(sorted(entries.works.items(), key=lambda one: int(one[0].rpartition("-")[2])))
        return await merge_port()(entries, ctx)

    async def _enter(self, entries: Entries, member: Agent, place: int, at: str, ctx: Context) -> None:
        work = await self.ask(member, None, place, at, ctx)
        if isinstance(work, Failure):
            entries.failed[place] = work
        else:
            entries.works[f"answer-{place}"] = work


@dataclass(slots=True)
class Entries:
    """The answers of a competition by the names under which they are shown, and the competitors that failed."""

    attempt: SharedStep
    works: dict[str, Work]
    failed: dict[int, Failure]

    @property
    def state(self) -> PlanState:
        """What the team knows."""
        return self.attempt.state

    @property
    def step(self) -> Step:
        """The step of the competition."""
        return self.attempt.step

    def shown(self, names: Sequence[str]) -> list[Message]:
        """Return answers without their authors, because judges are biased by names."""
        return [as_message(name, self.works[name].reply) for name in names]


def _failure(parts: Sequence[Part], failed: dict[str, Failure], among: Sequence[str]) -> Failure:
    """Return the failure of the first of these parts, in the order of the plan, with the names of all."""
    names = [part.id for part in parts if part.id in among]
    first = failed[names[0]]
    return first.changed(message=f"{first.message} (parts: {', '.join(names)})", optional=False)


def merge_port() -> MergeEntries:
    """Return what makes one of several answers; raises `UsageError` where the part that does it is not installed."""
    return required_hook("merge_entries", "A competition of several members")
