"""One effect: found in the record, or paid for, announced, made, tried again and recorded."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
from msgspec import structs

from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.retry import recorded_error, wait_before_retry
from teamwright.budget.ledger import DEFAULT_OUTPUT, NO_COST, Cost, Reservation, charge_for
from teamwright.budget.money import dollars
from teamwright.errors import AgentError, AgentTimeout, LimitReached, RunError
from teamwright.history.record.asks import RecordedCall
from teamwright.history.record.recorded_reply import recorded_result
from teamwright.runtime.admission.admission import UNBOUNDED, Admission, Permit
from teamwright.runtime.cancellation import ContainedTask
from teamwright.runtime.context.size_cap import within_cap
from teamwright.runtime.context.workspace import include_writes
from teamwright.runtime.redaction import RedactedStream
from teamwright.runtime.scope import Scope
from teamwright.runtime.steady_clock import remaining_wait
from teamwright.values.events.agent import AgentAbandoned, AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.budget import BudgetEased, BudgetExceeded, BudgetThrottled
from teamwright.values.events.event import Delta
from teamwright.values.key import join_key
from teamwright.values.limits.limits import tighter
from teamwright.values.limits.retry import DEFAULT_RETRY, RetryPolicy
from teamwright.values.limits.usage import NOTHING
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.turns.messages import digest


class EffectCall:
    """All attempts at one effect."""

    __slots__ = ("_effect", "_key", "_number", "_offset", "_permit", "_pieces", "_place", "_scope")

    def __init__(self, scope: Scope, place: str, effect: Effect) -> None:
        self._scope, self._place, self._effect = scope, place, effect
        self._key = join_key(scope.path, place)
        self._number = self._offset = 0
        self._permit = UNBOUNDED
        self._pieces: RedactedStream | None = None

    async def resolve(self) -> Returned:
        """The recorded outcome, or a new one."""
        scope, run = self._scope, self._scope.run
        recorded = self._recorded() if run.record.number else None
        if recorded is not None and recorded.outcome is not None:
            return self._repeated(recorded)
        if run.delivery.is_replaying:
            await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
        failures, in_doubt = 0, False
        if recorded is not None:
            self._number, failures, in_doubt = recorded.attempts, recorded.failures, recorded.in_doubt
            if recorded.retry_at is not None:
                await anyio.sleep(remaining_wait(recorded.retry_at, run.wall(), recorded.retry_in))
        while True:
            self._number, self._offset, self._pieces = self._number + 1, 0, None
            bounded = self._effect.model or scope.account or run.pausing
            permit = await Admission(scope, self._place, self._effect).acquire() if bounded else UNBOUNDED
            run.open_calls[self._key], self._permit = self, permit
            try:
                return await self._attempt(permit, in_doubt=in_doubt)
            except AgentError as error:
                failures += 1
                wait = self._failed(error, permit, failures)
                if wait is None:
                    raise self._as_recorded(error) from None
            finally:
                if permit.slot is not None:
                    permit.slot.close()
                run.open_calls.pop(self._key, None)
                if run.pausing or run.questions:  # once the turn that this call may end has been recorded
                    asyncio.get_running_loop().call_soon(run.call_returned)
            in_doubt = False
            await anyio.sleep(wait)

    def abandon(self) -> None:
        """The member does not end: nobody knows what this call costs, so it is charged in full."""
        self._tally(self._permit.cost)
        if self._permit.reservation is not None:
            self._permit.reservation.forfeit()
        if self._permit.slot is not None:
            self._permit.slot.close()

    def _recorded(self) -> RecordedCall | None:
        """What the record says of this effect; on a fork, one that sends something else begins anew."""
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

    def _repeated(self, recorded: RecordedCall) -> Returned:
        record = self._scope.run.record
        if record.writes:
            include_writes(self._scope, self._key)
        returned = recorded_result(recorded, record.bodies)
        self._scope.spend(returned.usage)
        return returned

    async def _attempt(self, permit: Permit, *, in_doubt: bool) -> Returned:
        """Announce the call, make it, and record what came back, with what it cost, as one."""
        scope, run, effect = self._scope, self._scope.run, self._effect
        max_output = permit.reservation.max_output if permit.reservation else effect.max_output
        if effect.kind == "model" and max_output is None:
            max_output = DEFAULT_OUTPUT
        if not self._announced:
            run.recorder.add(scope.path, self._place, self._called(permit, max_output, in_doubt=in_doubt))
        try:
            if (wait := run.recorder.pending_commit(at_once=run.delivery.has_single_lane)) is not None:
                await wait
        except asyncio.CancelledError:
            permit.cancel()
            raise
        try:
            returned = await self._leave(max_output, cut=permit.reservation is not None and permit.reservation.cut)
        except asyncio.CancelledError:
            if self._is_out:
                self._tally(permit.cost)
                if permit.reservation:
                    permit.reservation.forfeit()
            raise
        except AgentError:
            if not self._is_out:
                await run.park_until_cancelled()
            raise
        if self._pieces is not None:
            self._tell(self._pieces.rest())
        eased = permit.slot.returned(returned.usage) if permit.slot is not None else None
        if (run.closing or run.abandoned) and scope.is_closed:
            await run.park_until_cancelled()
        recorded = self._returned(returned, permit.reservation)
        self._note(eased)
        return recorded

    @property
    def _is_out(self) -> bool:
        """Whether somebody still waits for this call: it was not abandoned."""
        return self._scope.run.open_calls.get(self._key) is self

    @property
    def _announced(self) -> bool:
        """Whether the ask itself was the intent of this attempt, and its ending will be the return."""
        return self._scope.call_announced and self._number == 1

    def _called(self, permit: Permit, max_output: int | None, *, in_doubt: bool) -> AgentCalled:
        kind, name, request = self._effect.kind, self._effect.name, self._effect.request
        if self._number == 1 and permit is UNBOUNDED and max_output is None:
            return AgentCalled(effect=kind, name=name, request=request)
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
        )

    async def _leave(self, max_output: int | None, *, cut: bool) -> Returned:
        attempt = Attempt(
            run_id=self._scope.run.run_id,
            number=self._number,
            key=self._key,
            max_output=max_output,
            used=self._used,
            delta=partial(self._show, self._number),
            cut=cut,
        )
        timeout = self._timeout
        try:
            if timeout is None:
                return within_cap(await self._effect.call(attempt), self._effect)
            return within_cap(await self._in_time(attempt, timeout), self._effect)
        except (AgentError, LimitReached, RunError, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if self._scope.is_cancelled_from_outside():
                raise
            raise AgentError(f"{self._effect.name!r} was cancelled from inside") from error
        except TimeoutError as error:
            waited = "in time" if timeout is None else f"within {timeout:g} s"
            raise AgentTimeout(f"{self._effect.name!r} did not answer {waited}") from error
        except BaseException as error:  # whatever a call does wrong becomes a recorded failure
            if error is self._scope.run.error:
                raise
            raise AgentError(error_text(error)) from error

    async def _in_time(self, attempt: Attempt, seconds: float) -> Returned:
        """The outcome of the call, or `TimeoutError`; a call that does not end either is abandoned."""
        scope, effect = self._scope, self._effect

        async def call() -> Returned:
            return await effect.call(attempt)

        def abandoned() -> None:
            if not scope.is_closed:
                fact = AgentAbandoned(name=effect.name, grace=scope.run.grace)
                scope.run.recorder.add(scope.path, self._place, fact)

        task = ContainedTask(call(), name=self._key, grace=scope.run.grace, abandoned=abandoned)
        timer = asyncio.get_running_loop().call_later(seconds, task.stop)
        try:
            await task.wait()
        finally:
            timer.cancel()
        if task.stopping and task.has_failed:
            raise TimeoutError
        return task.result()

    def _returned(self, returned: Returned, reservation: Reservation | None) -> Returned:
        scope, run = self._scope, self._scope.run
        value = run.redactor.value(returned.value)
        if value is not returned.value:
            returned = structs.replace(returned, value=value)
        body = run.recorder.store(returned.value)
        if not (self._announced and returned.usage is NOTHING):
            fact = AgentReturned(
                body=body,
                attempt=self._number,
                usage=returned.usage,
                mark=returned.mark,
                truncated=returned.truncated,
                form=returned.form,
                capped=returned.capped,
            )
            run.recorder.add(scope.path, self._place, fact)
        scope.spend(returned.usage)
        spent = charge_for(returned.usage, reservation.cost if reservation is not None else NO_COST)
        if reservation is not None:
            self._settle(reservation, spent)
        self._tally(spent, returned.mark)
        return returned

    def _settle(self, reservation: Reservation, spent: Cost) -> None:
        over, held, level = reservation.settle(spent), reservation.cost, reservation.account.name
        found: list[BudgetExceeded] = []
        if over.tokens:
            found.append(
                BudgetExceeded(level=level, reserved=held.tokens, spent=spent.tokens, over=over.tokens, what="tokens")
            )
        if over.usd and reservation.account.priced:
            money = {"reserved": dollars(held.usd), "spent": dollars(spent.usd), "over": dollars(over.usd)}
            found.append(BudgetExceeded(level=level, what="usd", **money))
        for fact in found:
            self._scope.run.recorder.add(self._scope.path, self._place, fact)

    def _note(self, change: BudgetThrottled | BudgetEased | None) -> None:
        """Record that the model is called slower or faster from now on."""
        if change is not None:
            self._scope.run.recorder.add(self._scope.path, self._place, change)

    def _failed(self, error: AgentError, permit: Permit, failures: int) -> float | None:
        """Record a failed attempt; returns how long to wait before the next, if there is one."""
        run, reservation = self._scope.run, permit.reservation
        if reservation is not None:
            reservation.forfeit() if error.unknown_cost else reservation.release_tokens()
        chance = int(digest(str(run.seed), self._key, str(failures))[:8], 16) / 16**8
        policy = self._retry
        wait = wait_before_retry(policy, failures, error, chance)
        throttled: BudgetThrottled | None = None
        if (slot := permit.slot) is not None:
            throttled = slot.failed(error, wait, policy.longest if policy is not None else None)
            # Before the model has rested the call could not leave, however soon its policy would let it.
            wait = None if wait is None else max(wait, round(slot.cooldown, 3))
        if run.closing:
            return None
        run.recorder.add(
            self._scope.path,
            self._place,
            AgentCallFailed(
                error=error.kind,
                message=self._text_of(error),
                attempt=self._number,
                retry_in=wait,
                charged=error.unknown_cost,
                mark=error.mark,
            ),
        )
        self._note(throttled)
        self._tally(permit.cost if error.unknown_cost else NO_COST, error.mark)
        return wait

    @property
    def _retry(self) -> RetryPolicy | None:
        """The effect's own policy; where it has only the usual one, the team's.

        A request or function call that has none keeps to that of its agent. A tool may not be safe to call again.
        """
        own, teams = self._effect.retry, self._scope.recovery
        if own is None and self._effect.kind != "tool" and self._scope.policy.retry is not DEFAULT_RETRY:
            own = self._scope.policy.retry
        return teams.retry or own if own is DEFAULT_RETRY and teams is not None else own

    def _as_recorded(self, error: AgentError) -> AgentError:
        text = self._text_of(error)
        return error if text == str(error) else recorded_error(error.kind, text)

    def _text_of(self, error: AgentError) -> str:
        return cut(self._scope.run.redactor.text(str(error)), LONGEST_ERROR)

    @property
    def _timeout(self) -> float | None:
        """The effect's own; for a model request the limit on each message, where that is tighter."""
        account, effect = self._scope.account, self._effect
        bounds = account.message if account is not None and effect.kind == "model" else None
        timeout = effect.timeout if bounds is None else tighter(effect.timeout, bounds.seconds)
        return effect.default_timeout if timeout is None else timeout

    def _tally(self, cost: Cost, mark: str | None = None) -> None:
        """Count the call with the turn that it belongs to."""
        charges = self._scope.charges
        charges.add(cost.tokens, cost.usd, 1)
        if mark is not None:
            charges.marks += (mark,)
            self._scope.run.marks[self._scope.member, mark] += 1

    def _used(self, mark: str) -> int:
        member = self._scope.member
        return self._scope.run.record.charges.marks[member, mark] + self._scope.run.marks[member, mark]

    def _show(self, attempt: int, piece: str) -> None:
        """Show a piece of the reply to whoever watches, but for what may be the beginning of a secret."""
        if attempt != self._number or not self._is_out:  # of an attempt that was abandoned
            return
        if self._pieces is None:
            self._pieces = RedactedStream(self._scope.run.redactor)
        text, length = self._pieces.take(piece)
        self._tell(text)
        self._offset += length

    def _tell(self, text: str) -> None:
        scope = self._scope
        if text and scope.run.bus.has_listeners:
            scope.run.bus.publish_delta(
                Delta(
                    run_id=scope.run.run_id,
                    key=scope.path,
                    member=scope.member,
                    attempt=self._number,
                    offset=self._offset,
                    text=text,
                )
            )
