"""The context through which agents and strategies reach the world: asks, effects, people, scopes and branches.

`RunContext` implements the `Context` protocol over a `Scope`; the modules beside it do the work. Everything that passes
through it is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial

from msgspec import structs

from teamwright.agents.agent import (
    Agent,
    AppliedChange,
    ApplyChange,
    Branches,
    CheckChange,
    Clock,
    Context,
    MemberTree,
    Workspace,
)
from teamwright.agents.effect import Effect, Returned
from teamwright.agents.evaluators import Evaluator, require_evaluator
from teamwright.agents.review import pass_gate, reviewed_turn
from teamwright.errors import AgentTimeout, MisplacedEffect, UsageError
from teamwright.runtime.budget.admission import BudgetedAsk
from teamwright.runtime.budget.closing_reserve import Holdback
from teamwright.runtime.context.ask import Ask
from teamwright.runtime.context.branches import RunBranches
from teamwright.runtime.context.effect import EffectCall
from teamwright.runtime.context.recovery import AskRecovery
from teamwright.runtime.context.timers import Deadline, ScopeClock, sleep_durably
from teamwright.runtime.context.turn_outcome import emit_fact, undelivered
from teamwright.runtime.context.workspace import RunWorkspace, post_request
from teamwright.runtime.locks import Owner, PathLock
from teamwright.runtime.people.applied_interventions import has_passed, steer_ask, take_at_once, take_changes
from teamwright.runtime.people.questions import ApprovalGate, ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.teams.team import Team
from teamwright.values.events.event import Fact
from teamwright.values.events.team import StepHeldUp
from teamwright.values.limits import NO_CUTBACK, ClosingAsk, Cutback, Limits
from teamwright.values.owned_paths import UNOWNED, Owned
from teamwright.values.people import Answer, Question
from teamwright.values.run_keys import escape_place, join_key
from teamwright.values.text.display import cut
from teamwright.values.turns.artifacts import TreeState
from teamwright.values.turns.turn import Failure, MemberRequest, Reply, RequestKind, Turn, check_turn, is_heard

LONGEST_SUMMARY = 280
"""Characters of a message that all members read; the full text is in the workspace."""


class RunContext:
    """The context of one scope, for the agent or the strategy that works there."""

    __slots__ = ("_clock", "_scope", "_workspace")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._clock: Clock | None = None
        self._workspace: Workspace | None = None

    @property
    def clock(self) -> Clock:
        """The deterministic clock and random numbers of this scope."""
        if self._clock is None:
            scope = self._scope
            self._clock = ScopeClock(scope.run.seed, scope.path, self._now, partial(sleep_durably, scope))
        return self._clock

    @property
    def workspace(self) -> Workspace:
        """The shared workspace of the run, as this scope sees it."""
        if self._workspace is None:
            self._workspace = RunWorkspace(self._scope)
        return self._workspace

    @property
    def tree(self) -> MemberTree | None:
        """The files that this turn works on."""
        return self._scope.tree if self._scope.agent_scope else None

    @property
    def is_stopped(self) -> bool:
        """Whether a decision ends this turn for good, and not only the process stops."""
        run = self._scope.run
        return self._scope.is_being_stopped and not run.closing and not run.delivery.is_replaying

    async def ask(self, member: Agent, turn: Turn, *, key: str, evaluated: bool = True) -> Reply | Failure:
        """Ask a member and return its reply or failure; a recorded ending is returned without calling the member.

        Where the member has an evaluator, the reply has to pass it, unless the caller has it `evaluated` itself.
        """
        scope = self._scope
        run = scope.run
        if (run.closing or run.abandoned) and scope.is_closed:
            await run.park_until_cancelled()
        check_turn(turn, member.name)
        place = scope.claim(key)
        if scope.is_placed and run.place is not None and run.trees is None and turn.purpose == "work":
            member = run.place(member, scope.recovery)
        if run.interventions is not None:
            turn = await steer_ask(run.interventions, scope, member.name, turn, place)
        policy = member.policy
        gated = policy.evaluate is not None and evaluated and turn.purpose == "work"
        evaluator = require_evaluator(repr(member.name), policy.evaluate) if gated else None
        merges, before = turn.merges, None if scope.tree is None else scope.tree.state
        turn = turn if evaluator is None else reviewed_turn(turn, evaluator)
        # Teams are nested deeply, and Python bounds the depth of calls: no frame without need.
        counted = None
        if (scope.holdback is not None and not scope.in_agent) or scope.decides_degradation:
            counted = BudgetedAsk(scope, turn, place)
        try:
            if counted is not None:
                await counted.begin()
            if run.redactor.values and (task := run.redactor.text(turn.task)) is not turn.task:
                turn = structs.replace(turn, task=task)
            gate = None if policy.confirm is None else ApprovalGate.of(scope, member, place)
            ask = Ask(scope, member, turn, place, RunContext, policy, gate=gate)
            ending = await ask.resolve()
            if not isinstance(ending, Reply):
                ending = await self._recover(ask, ending, member, place)
            if counted is not None:
                counted.ending = ending
        finally:
            if counted is not None:
                counted.end()
        if evaluator is not None or run.trees is not None:
            ending = await self._accept(member, evaluator, turn, key, ending, before, merges=merges)
        return ending.changed(optional=True) if policy.optional and not isinstance(ending, Reply) else ending

    async def _recover(self, ask: Ask, failure: Failure, member: Agent, place: str) -> Reply | Failure:
        """Make a failed ask again with less if the budget refused it, and recover from any other failure."""
        ending: Reply | Failure = failure
        while ask.is_made_again(ending):
            ending = await ask.resolve()
        if isinstance(ending, Failure) and AskRecovery.is_recoverable(ending):
            ending = await AskRecovery(ask, self._scope, member, place).resolve(ending)
        return ending

    async def _accept(
        self,
        member: Agent,
        evaluator: Evaluator | None,
        turn: Turn,
        key: str,
        ending: Reply | Failure,
        before: TreeState | None,
        *,
        merges: bool,
    ) -> Reply | Failure:
        """Return work that passes the evaluation of its author, and whose changes are part of the team's branch.

        An agent that another one asks works on the same files, which go back to how they were `before` if it fails.
        """
        if evaluator is not None:
            ending = await self._evaluate(member, evaluator, turn, key, ending)
        if (tree := self._scope.tree) is not None:
            tree.note(ending.artifacts) if isinstance(ending, Reply) else tree.restore(before)
        return await self.merge(member, turn, ending, key=key) if merges else ending

    async def _evaluate(
        self, member: Agent, evaluator: Evaluator, turn: Turn, key: str, ending: Reply | Failure
    ) -> Reply | Failure:
        """Return work that passes the evaluation of its author, with what it said to others on the way.

        Who awaits others is not done: what it makes of their answers is evaluated.
        """
        if not isinstance(ending, Reply) or ending.awaits_others:
            return ending
        said = list(ending.requests)

        async def again(turn: Turn, key: str) -> Reply | Failure:
            revised = await self.ask(member, turn, key=key, evaluated=False)
            said.extend(revised.requests if isinstance(revised, Reply) else ())
            return revised

        ending = await pass_gate(self, member, evaluator, turn, key, ending, again, own=True)
        if not said:
            return ending
        return ending.changed(requests=tuple(said)) if isinstance(ending, Reply) else undelivered(ending)

    async def merge(self, member: Agent, turn: Turn, reply: Reply | Failure, *, key: str) -> Reply | Failure:
        """Apply the changes of a reply to the team's branch, or give them back to who resolves why they are refused."""
        if self._scope.run.trees is None or self._scope.in_agent or not isinstance(reply, Reply):
            return reply
        from teamwright.runtime.context.merge import MergeRounds

        return await MergeRounds(self, self._scope, member, turn, key).settle(reply)

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Make one call to the outside world, or return its recorded result."""
        scope = self._scope
        if (scope.run.closing or scope.run.abandoned) and scope.is_closed:
            return scope.run.park_until_cancelled()
        place = scope.claim(key)
        if not scope.agent_scope:
            raise MisplacedEffect(join_key(scope.path, key))
        wrong = effect.misfit() if effect.__class__ is Effect else f"it is {effect!r:.100}, and no Effect"
        if wrong is not None:
            raise UsageError(f"The effect at {key!r} can't be recorded: {wrong}")
        call, run = EffectCall(scope, place, effect), scope.run
        if effect.cancel_run is not None:
            return call.resolve_run(effect.cancel_run)
        if effect.by_content and run.record.number:
            return call.resolve_by_content()
        return call.resolve() if run.observer is None else call.resolve_observed(run.observer)

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person; the process may end before the answer arrives."""
        return await ask_person_at(self._scope, self._scope.claim(key), question)

    async def message(self, text: str, *, key: str, summary: str = "") -> None:
        """Tell all other members of the team something."""
        self._check_heard("message")
        kept = await self.workspace.keep(text, name="message", key=f"{key}/keep")
        short = cut(" ".join((summary or text).split()), LONGEST_SUMMARY)
        await self._post(MemberRequest(type="message", text=short, original=kept.hash), key)

    async def ask_member(self, name: str, question: str, *, key: str, hand_over: bool = False) -> None:
        """Ask another member for help, or hand the step over to it."""
        kind: RequestKind = "hand_over" if hand_over else "assist"
        self._check_heard(kind)
        await self._post(MemberRequest(type=kind, to=name, text=question), key)

    def _check_heard(self, kind: RequestKind) -> None:
        """Raise `UsageError` if no one would read what a member wants of others."""
        scope = self._scope
        if is_heard(kind, scope.talk):
            return
        problem = "it is asked to answer now, and may only send messages in this turn"
        if scope.talk == "none":
            team = scope.team.strategy.talk_problem(scope.team.settings) if isinstance(scope.team, Team) else None
            problem = team or "no one hears it in this turn; members talk while they work on a step"
        raise UsageError(f"{scope.member!r} can't reach colleagues here: {problem}.")

    async def _post(self, request: MemberRequest, key: str) -> None:
        if self._scope.is_closed:
            await self._scope.run.park_until_cancelled()
        post_request(self._scope, request, f"{key}/request")

    async def changes(
        self,
        *,
        before: str,
        apply: ApplyChange,
        messages: bool = False,
        check: CheckChange | None = None,
        at_once: ApplyChange | None = None,
    ) -> Sequence[AppliedChange]:
        """Carry out what people want changed before the ask with the key `before`, and return it."""
        scope, run = self._scope, self._scope.run
        if (run.closing or run.abandoned) and scope.is_closed:
            await run.park_until_cancelled()
        if check is not None and check != run.check_change and scope.is_outermost:
            run.check_change = check
            if run.apply_at_once is None and at_once is not None:
                take_at_once(scope, at_once)
        if run.interventions is None:
            return ()
        place = escape_place(before)
        if run.observer is not None and scope.is_outermost:
            await run.observer.place(is_recorded=has_passed(run.interventions, scope, place))
        return await take_changes(run.interventions, scope, place, apply, messages=messages)

    @property
    def cutback(self) -> Cutback:
        """What the team cuts back now because its budget is tight."""
        ladder = self._scope.degradation
        return NO_CUTBACK if ladder is None else ladder.cutback

    @property
    def owned(self) -> Owned:
        """The keys that may be written from here."""
        holding = self._scope.holding
        return UNOWNED if holding is None else holding.owned

    @asynccontextmanager
    async def scope(
        self,
        name: str,
        limits: Limits | None = None,
        owns: Collection[str] | None = None,
        priority: int = 0,
        *,
        working: bool = False,
    ) -> AsyncGenerator[Context]:
        """Open a named part of the work, with its own limits and keys; its time starts once it holds its keys."""
        scope, run = self._scope, self._scope.run
        full = join_key(scope.path, scope.claim(name))
        if working and limits is not None:
            limits = _with_time_of_run(limits, scope)
        child = scope.open_part(full, scope.lane, run.open_account(full, limits, scope.account))
        if limits is not None:
            run.record_limits(full, limits)
        if owns is None:
            async with self._with_deadline(child, name, limits, working=working):
                yield RunContext(child)
            return
        if scope.is_closed:
            await run.park_until_cancelled()
        held = await _acquire_keys(child, tuple(owns), priority)
        try:
            async with self._with_deadline(child, name, limits, working=working):
                yield RunContext(child)
        finally:
            _release_keys(child, held)

    @asynccontextmanager
    async def _with_deadline(
        self, child: Scope, name: str, limits: Limits | None, *, working: bool
    ) -> AsyncGenerator[None]:
        """Stop what runs inside when its time is up."""
        if limits is None or limits.seconds is None:
            yield
            return
        with Deadline(child, limits.seconds, since=child.run.now, working=working) as deadline:
            yield
        if deadline.expired:
            await child.run.delivery.rejoin(child.lane)
            raise AgentTimeout(f"{name!r} used up its {limits.seconds:g} seconds")

    @contextmanager
    def keep_back(self, closing: Sequence[ClosingAsk], *, closes: bool = False) -> Generator[None]:
        """Keep a part of the budget back for the asks with which a part of the work closes."""
        scope = self._scope
        if scope.account is None or not closing:
            yield
            return
        outer = scope.holdback
        scope.holdback = inner = Holdback(scope.account, closing, scope.degradation, outer=outer, is_part=True)
        if outer is not None:
            outer.part_begins(closing=closes)
        try:
            yield
        finally:
            inner.release()
            scope.holdback = outer
            if outer is not None:
                outer.part_ended(inner, closing=closes)

    def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[Branches]:
        """Run branches concurrently, at most `limit` at once, until all have ended or `until` holds."""
        return RunBranches(self._scope, limit, until, RunContext)

    async def emit(self, fact: Fact, *, key: str | None = None) -> None:
        """Record a fact, once."""
        emit_fact(self._scope, fact, key)

    def _now(self) -> float:
        """Return when the last delivery reached the run or, if later, the last answer reached this agent."""
        return max(self._scope.run.now, self._scope.answered_at)


def _with_time_of_run(limits: Limits, scope: Scope) -> Limits:
    """Return the limits of the run's own team with the seconds that were set for the run, if these are more."""
    given = scope.run.limits
    if given is None or given.seconds is None or limits.seconds is None or not scope.is_outermost:
        return limits
    return limits.model_copy(update={"seconds": max(limits.seconds, given.seconds)})


async def _acquire_keys(scope: Scope, keys: tuple[str, ...], priority: int) -> PathLock:
    """Acquire keys for this scope, waiting for other owners; records once that it waits."""
    run = scope.run

    def record_wait(fact: StepHeldUp) -> None:
        if not run.closing and (fact.kind, scope.path, "") not in run.record.emitted:
            run.recorder.add(scope.path, "", fact)

    holding = run.path_locks.root if scope.holding is None else scope.holding
    owner = Owner(scope.path, scope.lane, holding, scope.agent_scope, scope.in_agent)
    held = await run.path_locks.acquire(owner, keys, priority, record_wait)
    run.open_resources[held] = None
    scope.holding = held.inside
    return held


def _release_keys(scope: Scope, held: PathLock) -> None:
    """Release the keys of a scope that has ended; an abandoned scope has released them already."""
    if held in scope.run.open_resources:
        del scope.run.open_resources[held]
        held.abandon()
