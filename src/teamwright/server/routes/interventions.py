"""Questions to people, and interventions in live runs; each is recorded with the name of the visitor.

A receipt says how far an intervention has come: `sent` to a run without a driver, `accepted` or `applied`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated
from weakref import WeakValueDictionary

import anyio
from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from teamwright.errors import InterventionRefused, UsageError
from teamwright.runtime.people.interventions import Receipt
from teamwright.server.error_responses import responses, while_connected
from teamwright.server.jobs import FEW_LINES, PLAN_DIFFERENCE, difference, lines_of
from teamwright.server.masked_json import contains_mask, masked, masked_model, unmasked
from teamwright.server.overview import WaitingQuestion
from teamwright.server.routes.runs import check_raise
from teamwright.server.state import MAY_READ, Answerer, FoundRun, Reader, Runner, Server, ServerState
from teamwright.strategies.plan.plan_change import plan_after
from teamwright.strategies.plan.versions import NO_PLAN
from teamwright.values.events.run import PersonAnswered
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Answered, check_answer
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.text.secrets import mask_value
from teamwright.values.turns.results import RunSummary
from teamwright.values.value import exact_json

if TYPE_CHECKING:
    from teamwright.history.run_history import RunHistory


router = APIRouter(prefix="/api/runs/{run_id}", tags=["interventions"])
inbox_router = APIRouter(prefix="/api/inbox", tags=["interventions"])
PlainJson = Annotated[JsonValue, AfterValidator(exact_json)]
"""JSON that a journal can record and a response contain: without halves of characters, and without NaN."""
FILE_MODELS = frozenset(("scripted", "local"))
"""The prefixes of models that are files."""


class GivenAnswer(BaseModel):
    """The answer to a question."""

    model_config = ConfigDict(extra="forbid")
    key: str = Field(max_length=1000, description="the key of the question")
    text: str = Field(
        max_length=100_000, description="the answer; of a decision about a draft: approve, edit or reject"
    )
    data: PlainJson = Field(default=None, description="of a decision: the new content, or the reason")


class TakenAnswer(BaseModel):
    """The question that was answered, and whether this server resumed the run."""

    run_id: str
    key: str
    resumed: bool


class GivenMessage(BaseModel):
    """A message to the members of a run."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=100_000)
    to: str = Field(default="", max_length=200, description="one member, or all")


class GivenPlan(BaseModel):
    """A plan in place of the present one, or a change of it: `put`, `remove`, `variables` and `reason`."""

    model_config = ConfigDict(extra="forbid")
    plan: PlainJson


class GivenVersion(BaseModel):
    """An earlier version of the plan."""

    model_config = ConfigDict(extra="forbid")
    version: int = Field(ge=1, le=1_000_000_000)


class GivenReason(BaseModel):
    """Why someone does something."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(default="", max_length=10_000)


class PresentPlan(BaseModel):
    """The plan of a run's team."""

    plan: JsonValue


class ShownDifference(PresentPlan):
    """The present plan, and the difference that another would make, as a unified diff."""

    difference: list[str]


class PlainModel(BaseModel):
    """A member that is a model with instructions. Other declarations can name code, files and addresses."""

    model_config = ConfigDict(extra="forbid")
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="the name of a model, or provider:name; by default that of the team's first member with one",
    )
    instructions: str = Field(default="", max_length=100_000)
    description: str = Field(default="", max_length=10_000)

    def declaration(self) -> dict[str, JsonValue]:
        """The declaration as in a manifest, where `${` would read a variable of the server's environment."""
        kind, colon, _ = (self.model or "").partition(":")
        if self.model is not None and ("${" in self.model or (colon and kind in FILE_MODELS)):
            raise UsageError(f"The model {self.model!r} names a file or a variable of the server; write provider:name.")
        return {
            name: text.replace("${", "$${") for name, text in self.model_dump(mode="json", exclude_none=True).items()
        }


class GivenMember(BaseModel):
    """A member to add: the agent of this name in a team of this server, or a plain model."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=64)
    source: str | None = Field(default=None, max_length=200, description="the id of a team that declares the agent")
    spec: PlainModel | None = None


class InterventionReceipt(BaseModel):
    """How far an intervention has come; `inbox_id` is its number in the run's inbox and events."""

    run_id: str
    intervention: str
    inbox_id: int
    status: str
    number: int | None
    key: str


@inbox_router.get("", responses=responses(), dependencies=[MAY_READ])
async def read_inbox(server: Server) -> list[WaitingQuestion]:
    """Return everything that waits for a person, over all runs."""
    return [masked_model(one) for one in await server.inbox.questions()]


@router.get("/questions", responses=responses(404), dependencies=[MAY_READ])
async def list_questions(server: Server, run: FoundRun) -> list[WaitingQuestion]:
    """Return what the run waits for."""
    return [masked_model(one) for one in await server.inbox.questions_of(run)]


@router.post("/answers", status_code=202, responses=responses(404, 409))
async def answer_question(server: Server, visitor: Answerer, summary: FoundRun, given: GivenAnswer) -> TakenAnswer:
    """Answer a question. A run that paused for it, and that this server drove, goes on."""
    reply = Answer(text=given.text, data=given.data, by=visitor.name)
    resumed = await send_answers(server, summary, {given.key: reply})
    return TakenAnswer(run_id=summary.id, key=given.key, resumed=resumed)


async def send_answers(server: ServerState, summary: RunSummary, replies: Mapping[str, Answer]) -> bool:
    """Answer questions of a run by their keys, all of them or none; returns whether it was resumed.

    What its client was shown masked is sent with its secrets.
    """
    if contains_mask([one for reply in replies.values() for one in (reply.text, reply.data)]):
        asked = {one.key: one for one in await server.inbox.questions_of(summary)}
        restored = {key: asked[key].unmasked(one.text, one.data) for key, one in replies.items() if key in asked}
        replies = {
            key: one.changed(text=restored[key][0], data=restored[key][1]) if key in restored else one
            for key, one in replies.items()
        }
    if len(replies) > 1:
        history = await server.engine.runs.history(summary.id)
        for key, reply in replies.items():
            check_answer(history.require_question(key), key, reply)
    for key, reply in replies.items():
        await server.engine.runs.answer(summary.id, key, reply)
    return await server.driven.resume_if_paused(summary.id)


_answering: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def answered_alone(run_id: str) -> AsyncGenerator[None]:
    """Let one request at a time start or answer a run: of two answers one is refused, and a copy finds its run."""
    async with _answering.setdefault(run_id, asyncio.Lock()):
        yield


async def place_of_answer(server: ServerState, history: RunHistory, identity: str) -> int | None:
    """Return the event that is an answer of this message, or will be; `None` unless its client sends it again."""
    for event in history.events:
        if isinstance(event.fact, PersonAnswered) and event.fact.answer.id == identity:
            return event.number
    sent = (item.intervention for item in await server.engine.journal.inbox(history.events[0].run_id))
    return history.number + 1 if any(isinstance(one, Answered) and one.answer.id == identity for one in sent) else None


@router.post("/messages", status_code=202, responses=responses(404, 409))
async def say(server: Server, visitor: Answerer, run: FoundRun, given: GivenMessage) -> InterventionReceipt:
    """Tell the members something; each reads it with its next turn."""
    return _receipt(await server.engine.runs.say(run.id, given.text, to=given.to, by=visitor.name))


@router.post("/members/{member}/pause", status_code=202, responses=responses(404, 409))
async def pause_member(server: Server, visitor: Answerer, run: FoundRun, member: str) -> InterventionReceipt:
    """Let a member wait before its next turn."""
    return _receipt(await server.engine.runs.pause_member(run.id, member, by=visitor.name))


@router.post("/members/{member}/resume", status_code=202, responses=responses(404, 409))
async def resume_member(server: Server, visitor: Answerer, run: FoundRun, member: str) -> InterventionReceipt:
    """Let a paused member go on; a run that paused for it, and that this server drove, goes on too."""
    receipt = _receipt(await server.engine.runs.resume_member(run.id, member, by=visitor.name))
    await server.driven.resume_if_paused(run.id)
    return receipt


@router.post("/members", status_code=202, responses=responses(404, 409))
async def add_member(server: Server, visitor: Runner, run: FoundRun, given: GivenMember) -> InterventionReceipt:
    """Add a member to the team of a run."""
    if given.source is not None:
        spec: AgentSpec | dict[str, JsonValue] = await anyio.to_thread.run_sync(
            server.catalogue.agent, given.source, given.name
        )
    elif given.spec is not None:
        spec = given.spec.declaration()
    else:
        raise UsageError(f"The new member {given.name!r} needs a source, or a spec.")
    return _receipt(await server.engine.runs.add_member(run.id, given.name, spec, by=visitor.name))


@router.delete("/members/{member}", status_code=202, responses=responses(404, 409))
async def remove_member(server: Server, visitor: Runner, run: FoundRun, member: str) -> InterventionReceipt:
    """Remove a member from the team of a run; what it has done is kept."""
    return _receipt(await server.engine.runs.remove_member(run.id, member, by=visitor.name))


@router.get("/plan", responses=responses(404), dependencies=[MAY_READ])
async def read_plan(server: Server, run: FoundRun) -> PresentPlan:
    """Return the present plan of a run's team; `null` if its strategy records none."""
    return masked_model(PresentPlan(plan=(await server.engine.runs.history(run.id)).plan()))


@router.post("/plan/difference", responses=responses(404, 409))
async def compare_plan(
    server: Server, request: Request, visitor: Reader, run: FoundRun, given: GivenPlan
) -> ShownDifference:
    """Return what a plan, or a change of it, would change, without changing it."""
    if not isinstance(given.plan, dict):
        raise InterventionRefused(f"Run {run.id!r} can't take it: {NO_PLAN}.")
    present = (await server.engine.runs.history(run.id)).plan()
    # Both are masked first: the difference to a guess would tell a reader whether it is the secret.
    shown = mask_value(present)
    before, after = lines_of(shown), lines_of(plan_after(shown, mask_value(given.plan)))
    if len(before) + len(after) <= FEW_LINES:
        lines: JsonValue = [*difference(before, after)]
    else:
        work: dict[str, JsonValue] = {"before": [*before], "after": [*after]}
        lines = await while_connected(request, partial(server.jobs.compute, visitor, PLAN_DIFFERENCE, work))
    return ShownDifference.model_validate(masked({"plan": shown, "difference": lines}))


@router.post("/plan", status_code=202, responses=responses(404, 409))
async def edit_plan(server: Server, visitor: Runner, run: FoundRun, given: GivenPlan) -> InterventionReceipt:
    """Replace the plan of a run's team, or change it; what is done stays done."""
    plan = given.plan
    if contains_mask(plan):
        plan = unmasked(plan, (await server.engine.runs.history(run.id)).plan())
    return _receipt(await server.engine.runs.edit_plan(run.id, plan, by=visitor.name))


@router.post("/plan/restore", status_code=202, responses=responses(404, 409))
async def restore_plan(server: Server, visitor: Runner, run: FoundRun, given: GivenVersion) -> InterventionReceipt:
    """Make the plan of a run's team as it was in an earlier version; what is done stays done."""
    return _receipt(await server.engine.runs.restore_plan(run.id, given.version, by=visitor.name))


@router.post("/steps/{step}/stop", status_code=202, responses=responses(404, 409))
async def stop_step(
    server: Server, visitor: Runner, run: FoundRun, step: str, given: GivenReason | None = None
) -> InterventionReceipt:
    """Stop one step of a run's team; the others go on without its result."""
    reason = "" if given is None else given.reason
    return _receipt(await server.engine.runs.stop_step(run.id, step, reason=reason, by=visitor.name))


class RaisedLimits(Limits, defer_build=False):
    """The limits to raise; others stay as they are."""


@router.post("/limits", status_code=202, responses=responses(404, 409))
async def raise_budget(server: Server, visitor: Runner, run: FoundRun, given: RaisedLimits) -> InterventionReceipt:
    """Raise limits of the run and of its team."""
    check_raise(given, visitor)
    return _receipt(await server.engine.runs.raise_budget(run.id, given, by=visitor.name))


def _receipt(receipt: Receipt) -> InterventionReceipt:
    return InterventionReceipt.model_validate(receipt.to_json())
