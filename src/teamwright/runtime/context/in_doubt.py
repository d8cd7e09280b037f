"""A call that must not be made twice: asks the record and the outside world before the call is made.

A call is in doubt if its intent was recorded and its end was not. Messages of `ToolError` go to models.
"""

from __future__ import annotations

from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.contract.effect import Attempt, Effect, InDoubtPolicy, Returned
from teamwright.errors import ToolError
from teamwright.runtime.driver.once_actions import ActionLedger
from teamwright.runtime.scope import Scope
from teamwright.values.key import escape_place, join_key

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
