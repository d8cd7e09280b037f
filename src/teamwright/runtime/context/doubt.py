"""A call that must not be made twice: asks the record and the outside world before the call is made.

A call is in doubt if its intent was recorded and its end was not. Messages of `ToolError` go to models.
"""

from __future__ import annotations

from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.contract.effect import Attempt, DoubtPolicy, Effect, Returned
from teamwright.errors import ToolError
from teamwright.runtime.driver.actions import ActionLedger
from teamwright.runtime.scope import Scope
from teamwright.values.key import escape_place, join_key

ALREADY_DONE = "This action was made before. It was not made again; this is the recorded result."


class DoubtfulCall:
    """One attempt of an effect that has a `DoubtPolicy`."""

    def __init__(self, scope: Scope, effect: Effect, *, in_doubt: bool) -> None:
        assert effect.doubt is not None
        self._scope, self._effect, self._in_doubt = scope, effect, in_doubt
        self._policy: DoubtPolicy = effect.doubt

    async def make(self, attempt: Attempt) -> Returned:
        """Make the call, or return its result if it was made already."""
        actions = self._scope.run.actions
        if not self._policy.action or actions is None:
            return await self._settle(attempt)
        key = join_key(self._scope.path, escape_place(self._policy.key))
        holder = await actions.claim(self._policy.action, key)
        while not actions.is_own(holder, key):
            match await actions.outcome(holder):
                case Returned() as returned:
                    return _as_already_done(returned)
                case "asking":
                    raise ToolError(
                        f"The same call of the tool {self._effect.name!r} waits for a person, so it is not made twice"
                    )
                case "in_doubt":
                    if (returned := await self._find_result(attempt)) is not None:
                        return _as_already_done(returned)
                case "not_done":
                    pass
            holder = await actions.claim(self._policy.action, key, replaced=holder)
        return await self._make_noted(actions, key, attempt)

    async def _make_noted(self, actions: ActionLedger, key: str, attempt: Attempt) -> Returned:
        actions.begin(key)
        try:
            returned = await self._settle(attempt)
        except BaseException as error:
            actions.end(key, error)
            raise
        actions.end(key, returned)
        return returned

    async def _settle(self, attempt: Attempt) -> Returned:
        """Make the call, unless an earlier attempt of it may have been made."""
        if self._in_doubt or (self._policy.check is not None and attempt.number > 1):
            returned = await self._find_result(attempt)
            if returned is not None:
                return returned
        return await self._effect.call(attempt)

    async def _find_result(self, attempt: Attempt) -> Returned | None:
        """Return the result of a call in doubt, or `None` to make it; raises `ToolError` if it must not be made."""
        if self._policy.check is not None:
            return await self._policy.check(attempt)
        if not self._policy.repeat:
            raise ToolError(
                f"An earlier call of the tool {self._effect.name!r} failed or was interrupted. It may have taken effect"
                " nevertheless, so it is not made again; find out in another way whether it did"
            )
        return None


def _as_already_done(returned: Returned) -> Returned:
    """Return the result of the first call, and say so."""
    value: JsonValue = {"note": ALREADY_DONE, "result": returned.value}
    return structs.replace(returned, value=value, form=None, mark=None)
