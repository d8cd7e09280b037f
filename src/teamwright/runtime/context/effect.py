"""One effect: returned from the record, or admitted, announced, called, retried and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.contract.effect import (
    REPLY,
    Attempt,
    Effect,
    ReplyPart,
    Returned,
    recorded_error,
    wait_before_retry,
)
from teamwright.budget.estimates import dollars
from teamwright.budget.ledger import CALLS, NO_COST, TOKENS, USD, Cost, Reservation, charge_for
from teamwright.errors import AgentError, AgentTimeout, CallInDoubt, LimitReached, MissingDependency, RunError
from teamwright.history.record.asks import RecordedCall, recorded_result, texts_apart
from teamwright.history.record.charges import cost_of_run
from teamwright.runtime.budget.admission import UNBOUNDED, Admission, Permit
from teamwright.runtime.budget.prompt_meter import PromptBound
from teamwright.runtime.context.emit import PartStream
from teamwright.runtime.context.in_doubt import InDoubtCall
from teamwright.runtime.context.turn_outcome import within_cap
from teamwright.runtime.context.workspace import include_writes, store_file
from teamwright.runtime.driver.cancellation import ContainedTask
from teamwright.runtime.driver.delivery import waiting_for_provider
from teamwright.runtime.driver.recorder import remaining_wait
from teamwright.runtime.run_state import ReplayObserver
from teamwright.runtime.scope import Scope
from teamwright.values.call_limits import DEFAULT_RETRY, RetryPolicy
from teamwright.values.events.agent import (
    AgentAbandoned,
    AgentCalled,
    AgentCallFailed,
    AgentReturned,
    Body,
    TextRef,
    WorkspaceKept,
)
from teamwright.values.events.budget import BudgetEased, BudgetExceeded, BudgetMisreported, BudgetThrottled
from teamwright.values.events.event import Fact
from teamwright.values.key import join_key
from teamwright.values.limits import NOTHING, Limits, Usage, tighter
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.turns.messages import digest


class EffectCall:
    """All attempts of one effect."""

    __slots__ = ("_effect", "_emitted", "_key", "_number", "_permit", "_place", "_prompt", "_scope", "_streams")

    def __init__(self, scope: Scope, place: str, effect: Effect) -> None:
        self._scope, self._place, self._effect = scope, place, effect
        self._key = join_key(scope.path, place)
        self._number = self._emitted = 0
        self._permit = UNBOUNDED
        self._prompt: PromptBound | None = None
        self._streams: dict[ReplyPart, PartStream] = {}

    async def resolve(self) -> Returned:
        """Return the recorded result, or make the call, with retries, and record it."""
        scope, run = self._scope, self._scope.run
        recorded = self._find_recorded() if run.record.number else None
        if recorded is not None and recorded.outcome is not None:
            return self._replay(recorded)
        if run.record.number and run.delivery.is_replaying:
            await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
        failures, in_doubt, lost = 0, False, False
        if recorded is not None:
            scope.spend(recorded.usage)
            self._number, failures, in_doubt = recorded.attempts, recorded.failures, recorded.in_doubt
            await self._wait_for_retry(recorded)
        while True:
            self._number, self._streams = self._number + 1, {}
            bounded = self._effect.model or scope.account or run.pausing
            self._prompt, permit = None, UNBOUNDED
            if bounded:
                held = recorded.reserved if recorded is not None and in_doubt and self.goes_on else None
                admission = Admission(scope, self._place, self._effect, held)
                permit, self._prompt = await admission.acquire(), admission.prompt
            run.open_calls[self._key], self._permit = self, permit
            try:
                return await self._attempt(permit, in_doubt=in_doubt)
            except AgentError as error:
                if isinstance(error, CallInDoubt) and not lost and not run.closing:
                    in_doubt = lost = True
                    self._charge_in_full(permit)
                    continue
                failures += 1
                wait = self._record_failure(error, permit, failures)
                if wait is None:
                    raise self._as_recorded(error) from None
            finally:
                if self._streams:
                    self._discard_streams()
                if permit.slot is not None:
                    permit.slot.close()
                run.open_calls.pop(self._key, None)
                if run.pausing or run.questions:  # after the turn that this call may end has been recorded
                    asyncio.get_running_loop().call_soon(run.call_returned)
            in_doubt = False
            with waiting_for_provider(scope.lane):
                await anyio.sleep(wait)

    async def _wait_for_retry(self, recorded: RecordedCall) -> None:
        """Wait for what is left until the next attempt that was recorded, if there is one."""
        if recorded.retry_at is not None:
            with waiting_for_provider(self._scope.lane):
                await anyio.sleep(remaining_wait(recorded.retry_at, self._scope.run.wall(), recorded.retry_in))

    async def resolve_observed(self, observer: ReplayObserver) -> Returned:
        """Resolve the effect after a observer has looked at it."""
        recorded = self._find_recorded()
        is_recorded = recorded is not None and recorded.outcome is not None
        await observer.call(self._key, self._effect, is_recorded=is_recorded)
        return await self.resolve()

    async def resolve_run(self, cancel: Callable[[Attempt], None]) -> Returned:
        """Resolve an effect that starts a run; where a recorded decision stops it, the run is cancelled.

        A driver that has made no attempt of its own charges that of an earlier one, in full.
        """
        scope, run = self._scope, self._scope.run
        try:
            return await self.resolve()
        except asyncio.CancelledError:
            if scope.is_being_stopped and not run.closing:
                recorded = run.record.calls.get(self._key)
                if recorded is not None and not scope.charges.calls:
                    self._count(recorded.reserved, calls=max(1, recorded.reserved.calls))
                cancel(self._new_attempt(None))
            raise

    @property
    def goes_on(self) -> bool:
        """Whether what the call does goes on without it: it has started a run."""
        return self._effect.cancel_run is not None

    @property
    def holder(self) -> str:
        """The member that the call holds a reservation for, if it holds one."""
        return self._scope.member if self._permit.reservation is not None else ""

    def abandon(self) -> None:
        """Charge the call in full, because the member does not end and its cost is unknown."""
        self._charge_in_full(self._permit)
        self._discard_streams()
        if self._permit.slot is not None:
            self._permit.slot.close()

    def _charge_in_full(self, permit: Permit) -> None:
        """Charge the reservation of an attempt whose cost is unknown."""
        self._count(permit.cost, calls=max(1, permit.cost.calls))
        if permit.reservation is not None:
            permit.reservation.forfeit()

    def _find_recorded(self) -> RecordedCall | None:
        """Return the record of this effect; on a fork, an effect with a different request starts over."""
        scope, run, request = self._scope, self._scope.run, self._effect.request
        recorded = run.record.calls.get(self._key)
        if recorded is None and scope.call_announced and run.record.inherited < scope.first_event <= run.record.number:
            recorded = RecordedCall(request, attempts=1, in_doubt=True)
        if recorded is not None and recorded.request and recorded.request != request:
            run.report_mismatch(
                self._key,
                f"that {self._key!r} sent {recorded.request[:8]}",
                f"sends {request[:8]} ({self._effect.name})",
            )
            recorded = RecordedCall(request, attempts=recorded.attempts)
        return recorded

    def _replay(self, recorded: RecordedCall) -> Returned:
        record = self._scope.run.record
        if record.workspace.writes:
            include_writes(self._scope, self._key)
        self._scope.spend(recorded.usage)
        returned = recorded_result(recorded, record.bodies)
        self._scope.spend(returned.usage)
        return returned

    async def _attempt(self, permit: Permit, *, in_doubt: bool) -> Returned:
        """Announce the call, make it, and record its result and cost in one batch."""
        scope, run, effect = self._scope, self._scope.run, self._effect
        max_output = permit.reservation.max_output if permit.reservation else effect.max_output
        announced = scope.call_announced and self._number == 1
        if not announced:
            run.recorder.add(scope.path, self._place, self._called_fact(permit, max_output, in_doubt=in_doubt))
        try:
            if (wait := run.recorder.pending_commit(at_once=run.delivery.open_lanes == 1)) is not None:
                await wait
        except asyncio.CancelledError:
            permit.cancel()
            raise
        try:
            cut = permit.reservation is not None and permit.reservation.cut
            returned = await self._send(max_output, cut=cut, in_doubt=in_doubt)
        except asyncio.CancelledError:
            if self._is_in_flight:
                self._charge_in_full(permit)
            raise
        except AgentError:
            if not self._is_in_flight:
                await run.park_until_cancelled()
            raise
        for stream in self._streams.values():
            stream.finish()
        eased = permit.slot.returned(returned.usage) if permit.slot is not None else None
        if (run.closing or run.abandoned) and scope.is_closed:
            await run.park_until_cancelled()
        recorded = self._record_result(returned, permit.reservation, announced=announced)
        if eased is not None:
            self._record_rate_change(eased)
        return recorded

    @property
    def _is_in_flight(self) -> bool:
        """Whether this call was not abandoned."""
        return self._scope.run.open_calls.get(self._key) is self

    def _called_fact(self, permit: Permit, max_output: int | None, *, in_doubt: bool) -> AgentCalled:
        kind, name, request = self._effect.kind, self._effect.name, self._effect.request
        method = self._effect.method
        arguments = self._store_arguments() if self._effect.arguments is not None else None
        if self._number == 1 and permit is UNBOUNDED and max_output is None:
            return AgentCalled(effect=kind, name=name, request=request, arguments=arguments, method=method)
        return AgentCalled(
            effect=kind,
            name=name,
            request=request,
            attempt=self._number,
            reserved=permit.cost.tokens,
            reserved_usd=dollars(permit.cost.usd),
            max_output=max_output,
            in_doubt=in_doubt,
            waited=round(permit.slot.waited, 3) if permit.slot is not None else 0.0,
            arguments=arguments,
            method=method,
            reserved_calls=permit.cost.calls if permit.reservation is not None else 1,
        )

    def _store_arguments(self) -> Body:
        run = self._scope.run
        return run.recorder.store(run.redactor.value(self._effect.arguments))

    def _new_attempt(self, max_output: int | None, *, cut: bool = False) -> Attempt:
        return Attempt(
            run_id=self._scope.run.run_id,
            number=self._number,
            key=self._key,
            max_output=max_output,
            used=self._mark_count,
            delta=partial(self._stream, self._number),
            cut=cut,
            is_followed=self._scope.run.bus.is_followed(self._scope.run.run_id),
            emit=self._emit,
            limits=None if self._effect.cancel_run is None else self._run_limits(),
        )

    def _run_limits(self) -> Limits | None:
        """The limits of a run that the call starts: what is reserved for it, and how each request is bounded."""
        account, reserved = self._scope.account, self._permit.cost
        if account is None:
            return None
        bounded = {index for level in account.chain() for index, _ in level.bounds}
        return Limits(
            tokens=reserved.tokens if TOKENS in bounded else None,
            usd=dollars(reserved.usd) if USD in bounded else None,
            calls=reserved.calls if CALLS in bounded else None,
            message=account.message,
            strict=account.strict,
        )

    async def _send(self, max_output: int | None, *, cut: bool, in_doubt: bool) -> Returned:
        effect, account = self._effect, self._scope.account
        attempt, call = self._new_attempt(max_output, cut=cut), effect.call
        timeout = effect.timeout
        if account is not None and account.message is not None and effect.kind == "model":
            timeout = tighter(timeout, account.message.seconds)
        if timeout is None:
            timeout = effect.default_timeout
        if effect.in_doubt is not None:
            call = InDoubtCall(self._scope, effect, in_doubt=in_doubt).make
        try:
            if timeout is None:
                return within_cap(await call(attempt), effect)
            return within_cap(await self._call_with_timeout(call, attempt, timeout), effect)
        except MissingDependency as error:  # no member can help it: the run waits for an engine that has it
            self._scope.run.abort(error)
            raise
        except (AgentError, LimitReached, RunError, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if self._scope.is_cancelled_from_outside():
                raise
            raise AgentError(f"{effect.name!r} was cancelled from inside") from error
        except TimeoutError as error:
            waited = "in time" if timeout is None else f"within {timeout:g} s"
            raise AgentTimeout(f"{effect.name!r} did not answer {waited}") from error
        except BaseException as error:  # any error of a call becomes a recorded failure
            if error is self._scope.run.error:
                raise
            raise AgentError(error_text(error)) from error

    async def _call_with_timeout(
        self, send: Callable[[Attempt], Awaitable[Returned]], attempt: Attempt, seconds: float
    ) -> Returned:
        """Return the result of the call or raise `TimeoutError`; a call that does not end even then is abandoned."""
        scope, effect = self._scope, self._effect

        def abandoned() -> None:
            if not scope.is_closed:
                fact = AgentAbandoned(name=effect.name, grace=scope.run.grace)
                scope.run.recorder.add(scope.path, self._place, fact)

        task = ContainedTask(partial(send, attempt), name=self._key, grace=scope.run.grace, abandoned=abandoned)
        timer = asyncio.get_running_loop().call_later(seconds, task.stop)
        try:
            await task.wait()
        finally:
            timer.cancel()
        if task.stopping and task.has_failed:
            raise TimeoutError
        return task.result()

    def _record_result(self, returned: Returned, reservation: Reservation | None, *, announced: bool) -> Returned:
        """Record a result; one of a call that the ask has `announced` is a part of the ask's ending."""
        scope, run = self._scope, self._scope.run
        value = returned.value
        value = run.redactor.text(value) if isinstance(value, str) else run.redactor.value(value)
        if value is not returned.value and value != returned.value:
            returned = structs.replace(returned, value=value)
        if returned.files:
            returned = self._with_files_stored(returned)
        if announced and returned.usage is NOTHING:
            if isinstance(returned.value, str):  # which the ending refers to, redacted once
                run.recorder.store(returned.value)
        else:
            value, texts = self._texts_apart(returned)
            fact = AgentReturned(
                body=run.recorder.store(value),
                attempt=self._number,
                usage=returned.usage,
                mark=returned.mark,
                truncated=returned.truncated,
                form=returned.form,
                capped=returned.capped,
                artifacts=returned.artifacts,
                partial_usage=returned.partial_usage,
                tally=returned.tally,
                texts=texts,
            )
            run.recorder.add(scope.path, self._place, fact)
        reported = returned.partial_usage or returned.tally or returned.mark
        if returned.usage is NOTHING and reservation is None and reported is None:
            scope.charges.calls += 1
            return returned
        scope.spend(returned.usage)
        is_partial, reserved = returned.partial_usage is not None, reservation.cost if reservation else NO_COST
        if returned.tally is not None:
            spent = cost_of_run(returned.usage, returned.tally)
        else:
            spent = charge_for(returned.usage, reserved, is_partial=is_partial)
        self._count(spent, returned.mark, 1 if returned.tally is None else spent.calls)  # waiters forecast with it
        if reservation is not None:
            self._settle(reservation, spent, returned.usage.output_tokens if self._prompt is not None else 0)
            self._learn(returned, reservation)
        elif self._effect.kind == "model":
            run.prompt_meter.observe(self._effect, returned.usage)
        self._check_usage(returned, reservation)
        return returned

    def _texts_apart(self, returned: Returned) -> tuple[JsonValue, tuple[TextRef, ...]]:
        """Store the texts of a value that the reply of the turn will have as well; return the value without them."""
        if self._effect.kind == "model":
            place = ("parts",)
        elif returned.form == "reply":
            place = ("messages",)
        elif returned.tally is not None:  # of a child run
            place = ("reply", "messages")
        else:
            return returned.value, ()
        store, strips = self._scope.run.recorder.store, self._effect.kind == "model"
        return texts_apart(returned.value, place, store, strips=strips)

    def _with_files_stored(self, returned: Returned) -> Returned:
        """Store the files of a result, in the batch of the result."""
        scope, run = self._scope, self._scope.run
        artifacts = tuple(store_file(run, one) for one in returned.files)
        for artifact in artifacts:
            run.recorder.add(scope.path, self._place, WorkspaceKept(artifact=artifact, by=scope.member))
        return structs.replace(returned, files=(), artifacts=artifacts)

    def _settle(self, reservation: Reservation, spent: Cost, output: int) -> None:
        over, held, level = reservation.settle(spent, output), reservation.cost, reservation.account.name
        found: list[BudgetExceeded] = []
        if over.tokens and reservation.account.limits_tokens:
            overspent = reservation.account.overspends(TOKENS)
            found.append(
                BudgetExceeded(
                    level=level, reserved=held.tokens, spent=spent.tokens, over=over.tokens, overspent=overspent
                )
            )
        if over.usd and reservation.account.priced:
            money = {"reserved": dollars(held.usd), "spent": dollars(spent.usd), "over": dollars(over.usd)}
            overspent = reservation.account.overspends(USD)
            found.append(BudgetExceeded(level=level, what="usd", overspent=overspent, **money))
        for fact in found:
            if fact.is_warning:
                self._scope.run.record.budgets.exceeded.append(fact)
            self._scope.run.recorder.add(self._scope.path, self._place, fact)

    def _learn(self, returned: Returned, reservation: Reservation) -> None:
        """Learn how many tokens the prompt had, unless a line was added to it."""
        if self._prompt is not None and not reservation.cut:
            counted = self._scope.run.prompt_meter.learn(self._effect, self._prompt, returned.usage)
            if self._scope.holdback is not None and returned.usage.input_tokens:
                self._scope.holdback.call_returned(counted, returned.usage.input_tokens)

    def _check_usage(self, returned: Returned, reservation: Reservation | None) -> None:
        """Record, once per model and problem, that a provider reports a usage that can't be right."""
        run, effect = self._scope.run, self._effect
        cap = reservation.max_output if reservation is not None else effect.max_output
        output, model = returned.usage.output_tokens, effect.model or effect.name
        if returned.partial_usage in ("no_output", "no_input"):
            fact = BudgetMisreported(model=model, problem=returned.partial_usage)
        elif cap is not None and output > cap:
            fact = BudgetMisreported(model=model, problem="over_cap", reported=output, cap=cap)
        else:
            return
        if (model, fact.problem) not in run.record.budgets.misreported:
            run.record.budgets.misreported[model, fact.problem] = fact
            run.recorder.add("", "", fact)

    def _record_rate_change(self, change: BudgetThrottled | BudgetEased) -> None:
        """Record that the model is called slower or faster from now on."""
        self._scope.run.recorder.add(self._scope.path, self._place, change)

    def _record_failure(self, error: AgentError, permit: Permit, failures: int) -> float | None:
        """Record a failed attempt; returns the backoff before the next one, or `None` if there is none."""
        run, reservation = self._scope.run, permit.reservation
        if reservation is not None:
            reservation.forfeit() if error.unknown_cost else reservation.release_tokens()
        chance = int(digest(str(run.seed), self._key, str(failures))[:8], 16) / 16**8
        policy = self._retry_policy
        wait = wait_before_retry(policy, failures, error, chance)
        throttled: BudgetThrottled | None = None
        if (slot := permit.slot) is not None:
            throttled = slot.failed(error, wait, policy.longest if policy is not None else None)
            # The call can't be sent before the model has cooled down, whatever its retry policy says.
            wait = None if wait is None else max(wait, round(slot.cooldown, 3))
        if run.closing:
            return None
        arrived = NOTHING
        if error.arrived is not None and error.unknown_cost:
            arrived = Usage(requests=1, input_tokens=error.arrived[0], output_tokens=error.arrived[1])
        run.recorder.add(
            self._scope.path,
            self._place,
            AgentCallFailed(
                error=error.kind,
                message=self._error_text(error),
                attempt=self._number,
                retry_in=wait,
                charged=error.unknown_cost,
                mark=error.mark,
                usage=arrived,
            ),
        )
        self._scope.spend(arrived)
        if throttled is not None:
            self._record_rate_change(throttled)
        self._count(permit.cost if error.unknown_cost else NO_COST, error.mark)
        return wait

    @property
    def _retry_policy(self) -> RetryPolicy | None:
        """The retry policy of the effect: its own, or the team's where it has only the default.

        A request or function call without one uses that of its agent; a tool does not, since it may not be safe to call
        again.
        """
        if not self._scope.may_retry and self._effect.kind != "tool":
            return None
        own, teams = self._effect.retry, self._scope.recovery
        if own is None and self._effect.kind != "tool" and self._scope.policy.retry is not DEFAULT_RETRY:
            own = self._scope.policy.retry
        return teams.retry or own if own is DEFAULT_RETRY and teams is not None else own

    def _as_recorded(self, error: AgentError) -> AgentError:
        text = self._error_text(error)
        return error if text == str(error) else recorded_error(error.kind, text)

    def _error_text(self, error: AgentError) -> str:
        return cut(self._scope.run.redactor.text(str(error)), LONGEST_ERROR)

    def _count(self, cost: Cost, mark: str | None = None, calls: int = 1) -> None:
        """Count the call towards the turn that it belongs to, with the calls that it made."""
        charges = self._scope.charges
        charges.add(cost.tokens, cost.usd, calls)
        if self._scope.account is not None:
            self._scope.charge(cost.tokens, cost.usd)
        if mark is not None:
            charges.marks += (mark,)
            self._scope.run.marks[self._scope.member, mark] += 1

    def _mark_count(self, mark: str) -> int:
        member = self._scope.member
        return self._scope.run.record.charges.marks[member, mark] + self._scope.run.marks[member, mark]

    def _emit(self, fact: Fact) -> None:
        """Record a fact of the call, redacted; nothing is recorded once the call has ended."""
        if self._is_in_flight and not self._scope.is_closed:
            self._emitted += 1
            place = f"{self._place}/event-{self._number}-{self._emitted}"
            run = self._scope.run
            run.recorder.add(self._scope.path, place, run.redactor.fact(fact))

    def _stream(self, attempt: int, piece: str, part: ReplyPart = REPLY) -> None:
        """Publish a piece of the reply, except for what may be the beginning of a secret."""
        if attempt != self._number or not self._is_in_flight:  # from an abandoned attempt
            return
        if (stream := self._streams.get(part)) is None:
            stream = self._streams[part] = PartStream(self._scope, attempt, part)
        stream.feed(piece)

    def _discard_streams(self) -> None:
        """Show nothing more of this attempt to followers that come later."""
        for stream in self._streams.values():
            stream.discard()
