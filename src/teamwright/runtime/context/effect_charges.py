"""What is recorded and charged of one effect: each attempt, its result or its failure, and when it is tried again.
Before a call that must not be made twice, the record and the outside world are asked whether it was made.

Such a call is in doubt if its intent was recorded and its end was not. Messages of `ToolError` go to models.
"""

from __future__ import annotations

from msgspec import Struct, structs
from pydantic import JsonValue

from teamwright.agents.effect import (
    Attempt,
    Effect,
    InDoubtPolicy,
    Returned,
)
from teamwright.errors import AgentError, ToolError
from teamwright.history.recorded_asks import texts_apart
from teamwright.history.recorded_charges import cost_of_run
from teamwright.runtime.budget.admission import UNBOUNDED, Permit
from teamwright.runtime.budget.ledger import Reservation
from teamwright.runtime.budget.prompt_meter import PromptBound
from teamwright.runtime.context.workspace import store_file
from teamwright.runtime.locks import ActionLedger
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned, Body, TextRef, WorkspaceKept
from teamwright.values.events.budget import BudgetEased, BudgetExceeded, BudgetMisreported, BudgetThrottled
from teamwright.values.retries import DEFAULT_RETRY, RetryPolicy, recorded_error, wait_before_retry, wait_to_outlast
from teamwright.values.run_keys import escape_place, join_key
from teamwright.values.text.display import LONGEST_ERROR, cut
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import NO_COST, NOTHING, TOKENS, USD, Cost, Usage, charge_for, dollars

ALREADY_DONE = "This action was made before. It was not made again; this is the recorded result."


class InDoubtCall:
    """One attempt of an effect that has a `InDoubtPolicy`."""

    def __init__(self, scope: Scope, effect: Effect, *, in_doubt: bool) -> None:
        assert effect.in_doubt is not None
        self._scope, self._effect, self._in_doubt = scope, effect, in_doubt
        self._policy: InDoubtPolicy = effect.in_doubt
        self._forgotten = False
        """Whether the run was deleted that knew who had made the action."""

    async def make(self, attempt: Attempt) -> Returned:
        """Make the call, or return its result if it was made already."""
        actions = self._scope.run.actions
        if not self._policy.action or actions is None:
            return await self._settle(attempt)
        key = join_key(self._scope.path, escape_place(self._policy.key))
        async with actions.lock(self._policy.action):
            returned = await self._claim(actions, key, attempt)
            if returned is not None:
                return returned
            try:
                returned = await self._settle(attempt)
            except BaseException as error:
                actions.end(key, error)
                raise
            actions.end(key, returned)
            return returned

    async def _claim(self, actions: ActionLedger, key: str, attempt: Attempt) -> Returned | None:
        """Claim the action for this call, or return the result of the call that made it."""
        action = self._policy.action
        holder = await actions.claim(action, key)
        self._forgotten = await actions.are_forgotten()
        if actions.is_own(holder, key) and self._may_have_been_made(attempt):
            # From here on, no fork can take the action over because it saw this run without a driver.
            holder = await actions.claim(action, key, replaced=holder)
        while not actions.is_own(holder, key):
            match await actions.outcome(holder):
                case Returned() as returned:
                    return _as_already_done(returned)
                case "asking":
                    raise ToolError(
                        f"The same call of the tool {self._effect.name!r} waits for a person, so it is not made twice"
                    )
                case "in_doubt":
                    if (found := await self._find_result(attempt)) is not None:
                        return _as_already_done(found)
                case "not_done":
                    pass
            holder = await actions.claim(action, key, replaced=holder)
        return None

    def _may_have_been_made(self, attempt: Attempt) -> bool:
        return self._in_doubt or self._forgotten or (self._policy.check is not None and attempt.number > 1)

    async def _settle(self, attempt: Attempt) -> Returned:
        """Make the call, unless an earlier attempt of it may have been made."""
        if self._may_have_been_made(attempt):
            returned = await self._find_result(attempt)
            if returned is not None:
                return returned
        return await self._effect.call(attempt)

    async def _find_result(self, attempt: Attempt) -> Returned | None:
        """Return the result of a call in doubt, or `None` to make it; raises `ToolError` if it must not be made."""
        if self._policy.check is not None:
            return await self._policy.check(attempt)
        if not self._policy.repeat:
            what = f"{'the tool ' if self._effect.kind == 'tool' else ''}{self._effect.name!r}"
            before = (
                f"The run that knew the earlier calls of {what} was deleted. One like this"
                if self._forgotten and not self._in_doubt
                else f"An earlier call of {what} failed or was interrupted. It"
            )
            raise ToolError(
                f"{before} may have taken effect nevertheless, so it is not made again; find out in another way whether"
                " it did"
            )
        return None


def _as_already_done(returned: Returned) -> Returned:
    """Return the result of the first call, and say so."""
    value: JsonValue = {"note": ALREADY_DONE, "result": returned.value}
    return structs.replace(returned, value=value, form=None, mark=None)


class EffectRecord(Struct, eq=False):
    """The record of one effect at its place in a scope. `number`, `permit` and `prompt` are those of its attempt."""

    scope: Scope
    place: str
    key: str
    effect: Effect
    number: int = 0
    permit: Permit = UNBOUNDED
    prompt: PromptBound | None = None
    failures: int = 0
    outlasted: float = 0.0
    """Seconds that it has left its provider alone so far; these failures are not counted."""

    @property
    def model(self) -> str:
        """What takes no calls while a provider is to be left alone: the model, or else what is called here."""
        return self.effect.model or self.key

    def announce(self, max_output: int | None, *, in_doubt: bool) -> None:
        """Record that an attempt is about to be made."""
        self.scope.run.recorder.add(self.scope.path, self.place, self._called_fact(max_output, in_doubt=in_doubt))

    def _called_fact(self, max_output: int | None, *, in_doubt: bool) -> AgentCalled:
        permit = self.permit
        kind, name, request = self.effect.kind, self.effect.name, self.effect.request
        method = self.effect.method
        arguments = self._store_arguments() if self.effect.arguments is not None else None
        if self.number == 1 and permit is UNBOUNDED and max_output is None:
            return AgentCalled(effect=kind, name=name, request=request, arguments=arguments, method=method)
        called = AgentCalled(
            effect=kind,
            name=name,
            request=request,
            attempt=self.number,
            max_output=max_output,
            in_doubt=in_doubt,
            waited=round(permit.slot.waited, 3) if permit.slot is not None else 0.0,
            arguments=arguments,
            method=method,
        )
        if permit.reservation is None:
            return called
        tokens, usd, calls = permit.reservation.cost
        return called.changed(reserved=tokens, reserved_usd=dollars(usd), reserved_calls=calls)

    def _store_arguments(self) -> Body:
        run = self.scope.run
        return run.recorder.store(run.redactor.value(self.effect.arguments))

    def charge_in_full(self) -> None:
        """Charge the reservation of an attempt whose cost is unknown."""
        permit = self.permit
        self.count(permit.cost, calls=max(1, permit.cost.calls))
        if permit.reservation is not None:
            permit.reservation.forfeit()

    def returned(self, returned: Returned, *, announced: bool) -> Returned:
        """Record a result; one of a call that the ask has `announced` is a part of the ask's ending."""
        scope, run, reservation = self.scope, self.scope.run, self.permit.reservation
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
                attempt=self.number,
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
            run.recorder.add(scope.path, self.place, fact)
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
        self.count(spent, returned.mark, 1 if returned.tally is None else spent.calls)  # waiters forecast with it
        if reservation is not None:
            self._settle(reservation, spent, returned.usage.output_tokens if self.prompt is not None else 0)
            self._learn(returned, reservation)
        elif self.effect.kind == "model":
            run.prompt_meter.observe(self.effect, returned.usage)
        self._check_usage(returned, reservation)
        return returned

    def _texts_apart(self, returned: Returned) -> tuple[JsonValue, tuple[TextRef, ...]]:
        """Store the texts of a value that the reply of the turn will have as well; return the value without them."""
        if self.effect.kind == "model":
            place = ("parts",)
        elif returned.form == "reply":
            place = ("messages",)
        elif returned.tally is not None:  # of a child run
            place = ("reply", "messages")
        else:
            return returned.value, ()
        store, strips = self.scope.run.recorder.store, self.effect.kind == "model"
        return texts_apart(returned.value, place, store, strips=strips)

    def _with_files_stored(self, returned: Returned) -> Returned:
        """Store the files of a result, in the batch of the result."""
        scope, run = self.scope, self.scope.run
        artifacts = tuple(store_file(run, one) for one in returned.files)
        for artifact in artifacts:
            run.recorder.add(scope.path, self.place, WorkspaceKept(artifact=artifact, by=scope.member))
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
                self.scope.run.record.budgets.exceeded.append(fact)
            self.scope.run.recorder.add(self.scope.path, self.place, fact)

    def _learn(self, returned: Returned, reservation: Reservation) -> None:
        """Learn how many tokens the prompt had, unless a line was added to it."""
        if self.prompt is not None and not reservation.cut:
            counted = self.scope.run.prompt_meter.learn(self.effect, self.prompt, returned.usage)
            if self.scope.holdback is not None and returned.usage.input_tokens:
                self.scope.holdback.call_returned(counted, returned.usage.input_tokens)

    def _check_usage(self, returned: Returned, reservation: Reservation | None) -> None:
        """Record, once per model and problem, that a provider reports a usage that can't be right."""
        run, effect = self.scope.run, self.effect
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

    def rate_changed(self, change: BudgetThrottled | BudgetEased) -> None:
        """Record that the model is called slower or faster from now on."""
        self.scope.run.recorder.add(self.scope.path, self.place, change)

    def failed(self, error: AgentError) -> float | None:
        """Record a failed attempt; returns the backoff before the next one, or `None` if there is none.

        Until a provider takes calls again, the admission of the next attempt waits.
        """
        run, permit, reservation = self.scope.run, self.permit, self.permit.reservation
        failures = self.failures + 1
        if reservation is not None:
            reservation.forfeit() if error.unknown_cost else reservation.release_tokens()
        chance = int(digest(str(run.seed), self.key, str(failures))[:8], 16) / 16**8
        policy = self._retry_policy
        outlast = wait_to_outlast(policy, failures, self.outlasted, error, chance)
        wait = wait_before_retry(policy, failures, error, chance) if outlast is None else outlast
        throttled: BudgetThrottled | None = None
        if (slot := permit.slot) is not None:
            # Who waits for a slot is to find out that the model is closed, so it does not cool down then.
            longest = policy.waits.max if policy is not None else None
            throttled = slot.failed(error, wait, longest) if outlast is None else slot.failed(error, None, 0.0)
            # The call can't be sent before the model has cooled down, whatever its retry policy says.
            wait = None if wait is None else max(wait, round(slot.cooldown, 3))
        if run.closing:
            return None
        arrived = NOTHING
        if error.arrived is not None and error.unknown_cost:
            arrived = Usage(requests=1, input_tokens=error.arrived[0], output_tokens=error.arrived[1])
        event = run.recorder.add(
            self.scope.path,
            self.place,
            AgentCallFailed(
                error=error.kind,
                message=self._error_text(error),
                attempt=self.number,
                retry_in=wait,
                charged=error.unknown_cost,
                mark=error.mark,
                usage=arrived,
                model="" if outlast is None else self.model,
            ),
        )
        self.scope.spend(arrived)
        if throttled is not None:
            self.rate_changed(throttled)
        self.count(permit.cost if error.unknown_cost else NO_COST, error.mark)
        if outlast is None or wait is None:
            self.failures = failures
            return wait
        self.outlasted += wait
        run.record.closed_models[self.model] = event.time + wait
        return 0.0

    @property
    def _retry_policy(self) -> RetryPolicy | None:
        """The retry policy of the effect: its own, or the team's where it has only the default.

        A request or function call without one uses that of its agent; a tool does not, since it may not be safe to call
        again.
        """
        if not self.scope.may_retry and self.effect.kind != "tool":
            return None
        own, teams = self.effect.retry, self.scope.recovery
        if own is None and self.effect.kind != "tool" and self.scope.policy.retry is not DEFAULT_RETRY:
            own = self.scope.policy.retry
        return teams.retry or own if own is DEFAULT_RETRY and teams is not None else own

    def as_recorded(self, error: AgentError) -> AgentError:
        """Return an error as a replay raises it: without secrets, and not too long."""
        text = self._error_text(error)
        return error if text == str(error) else recorded_error(error.kind, text)

    def _error_text(self, error: AgentError) -> str:
        return cut(self.scope.run.redactor.text(str(error)), LONGEST_ERROR)

    def count(self, cost: Cost, mark: str | None = None, calls: int = 1) -> None:
        """Count the call towards the turn that it belongs to, with the calls that it made."""
        charges = self.scope.charges
        charges.add(cost.tokens, cost.usd, calls)
        if self.scope.account is not None:
            self.scope.charge(cost.tokens, cost.usd)
        if mark is not None:
            charges.marks += (mark,)
            self.scope.run.marks[self.scope.member, mark] += 1
