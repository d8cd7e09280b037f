"""The deterministic criteria of a rubric.

What reaches outside or is bounded in time is an effect, so that a replay repeats its result. A check that fails itself
raises `CheckFailed`: such a review is not complete, and nothing passes.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.contract.context import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.functions.import_path import load_function
from teamwright.agents.functions.turn_context import call_off_loop
from teamwright.agents.schemas.schema import check as check_schema
from teamwright.errors import AgentError, InvalidOutput, UsageError
from teamwright.experts.evaluation.check_context import NO_WORK, CheckContext, open_context, takes_context
from teamwright.experts.evaluation.command import run_command
from teamwright.values.specs.evaluation import Criterion
from teamwright.values.text.control_characters import is_blank
from teamwright.values.text.display import cut
from teamwright.values.text.timed_regex import PatternSearch
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import EvaluatedWork
from teamwright.values.verdicts import CriterionResult

LONGEST_REASON = 500

Finding = tuple[float, str]
"""A score, and the reason of one that is too low."""
OpenContext = Callable[[], Awaitable[CheckContext]]
"""Reads what a check may know of the work besides its text, once it is needed."""


class CheckFailed(AgentError):
    """A check could not be completed."""


async def run_check(
    criterion: Criterion, work: str, ctx: Context, task: str = "", about: EvaluatedWork = NO_WORK
) -> CriterionResult:
    """Return the result of a criterion that needs no judge; raises `CheckFailed` if the check itself fails.

    `task` is what the author was asked for, and `about` what else is known of the work.
    """
    finding = _simple_finding(criterion, work)
    if finding is None:
        finding = await _recorded_finding(criterion, work, partial(open_context, task, about, criterion, ctx), ctx)
    score, reason = finding
    passed = score >= criterion.at_least
    return CriterionResult(id=criterion.id, passed=passed, score=score, reason="" if passed else reason)


def _simple_finding(criterion: Criterion, work: str) -> Finding | None:
    """Return the finding of a criterion that only looks at the text; `None` for another one."""
    if criterion.non_blank is not None:
        return _finding(not is_blank(work), "it is blank")
    if criterion.contains is not None:
        return _finding(criterion.contains in work, f"it does not contain {cut(criterion.contains, 80)!r}")
    if criterion.length is not None:
        least, most, count = criterion.length.min, criterion.length.max, len(work)
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        fits = least <= count and (most is None or count <= most)
        return _finding(fits, f"it has {count} characters, and {bounds} are wanted")
    return None


def _finding(passed: bool, reason: str) -> Finding:
    return (1.0, "") if passed else (0.0, reason)


async def _recorded_finding(criterion: Criterion, work: str, open_it: OpenContext, ctx: Context) -> Finding:
    """Make the check as an effect, and return what was found or recorded."""
    find = _finder(criterion, work, open_it)

    async def call(_: Attempt) -> Returned:
        score, reason = await find()
        return Returned({"score": score, "reason": cut(reason, LONGEST_REASON)})

    declared = criterion.model_dump_json(exclude_defaults=True)
    effect = Effect(
        kind="function", name=criterion.id, request=digest(declared, work), call=call, timeout=criterion.timeout
    )
    try:
        found = cast("dict[str, JsonValue]", (await ctx.effect(f"check-{criterion.id}", effect)).value)
    except AgentError as error:
        raise CheckFailed(f"the check {criterion.id!r} failed: {error}") from error
    return float(cast("float", found["score"])), str(found["reason"])


def _finder(criterion: Criterion, work: str, open_it: OpenContext) -> Callable[[], Awaitable[Finding]]:
    if criterion.command is not None:
        return partial(_find_by_command, criterion.command, work, open_it)
    if criterion.python is not None:
        return partial(_find_by_function, criterion.python, criterion.id, work, open_it)
    if criterion.regex is not None:
        return partial(call_off_loop, partial(_search, criterion.regex), criterion.id, work)  # pyright: ignore[reportReturnType]
    assert criterion.json_schema is not None
    return partial(call_off_loop, partial(_fit, criterion.json_schema), criterion.id, work)  # pyright: ignore[reportReturnType]


def _search(pattern: str, work: str) -> Finding:
    return _finding(PatternSearch().found(pattern, work), f"nothing matches '{cut(pattern, 80)}'")


def _fit(schema: dict[str, JsonValue], work: str) -> Finding:
    try:
        value = cast("JsonValue", from_json(work.strip(), allow_inf_nan=False))
        check_schema(schema, value, "it")
    except InvalidOutput as error:
        return 0.0, str(error)
    except ValueError as error:
        return 0.0, f"it is not JSON ({error})"
    return 1.0, ""


async def _find_by_command(command: tuple[str, ...], work: str, open_it: OpenContext) -> Finding:
    code, output = await run_command(command, work, await open_it())
    return _finding(code == 0, f"{command[0]} exited with {code}: {output}" if output else f"it exited with {code}")


async def _find_by_function(path: str, name: str, work: str, open_it: OpenContext) -> Finding:
    try:
        function = load_function(path, f"the check {name!r}")
    except UsageError as error:
        raise AgentError(str(error)) from error
    more = (await open_it(),) if takes_context(function) else ()
    return _read_finding(await call_off_loop(function, f"the check {name!r}", work, *more))


def _read_finding(found: object) -> Finding:
    """Read what a function returned: true, false, a score from 0 to 1, or one of them in a pair with the reason."""
    reason = "the check says no"
    if isinstance(found, tuple) and len(cast("tuple[object, ...]", found)) == 2:
        found, said = cast("tuple[object, object]", found)
        reason = str(said)
    if isinstance(found, bool):
        return _finding(found, reason)
    if isinstance(found, int | float) and math.isfinite(found) and 0 <= found <= 1:
        return float(found), reason
    raise AgentError(f"it must return True, False, a score from 0 to 1, or a pair with the reason, not {found!r:.100}")
