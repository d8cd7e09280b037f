"""Questions to people, and interventions in live runs; each is recorded with the name of the visitor."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from teamwright.server.access import MAY_READ, Answerer, Runner, Server
from teamwright.server.errors import responses
from teamwright.values.limits.limits import Limits
from teamwright.values.people.questions import Answer

router = APIRouter(prefix="/api/runs/{run_id}", tags=["steering"])


class GivenAnswer(BaseModel):
    """The answer to a question."""

    model_config = ConfigDict(extra="forbid")
    key: str = Field(description="the key of the question")
    text: str = Field(description="the answer; of a decision about a draft: approve, edit or reject")
    data: JsonValue = Field(default=None, description="of a decision: the new content, or the reason")


class GivenMessage(BaseModel):
    """A message to the members of a run."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=100_000)
    to: str = Field(default="", description="one member, or all")


class RaisedLimits(BaseModel):
    """Limits that are raised."""

    model_config = ConfigDict(extra="forbid")
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)
    calls: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)


@router.get("/questions", responses=responses(404), dependencies=[MAY_READ])
async def list_questions(server: Server, run_id: str) -> dict[str, JsonValue]:
    """Return what the run waits for, by key."""
    history = await server.engine.runs.history(run_id)
    return {key: question.to_json() for key, question in history.questions().items()}


@router.post("/answers", status_code=202, responses=responses(404, 409))
async def answer(server: Server, visitor: Answerer, run_id: str, given: GivenAnswer) -> dict[str, JsonValue]:
    """Answer a question."""
    reply = Answer(text=given.text, data=given.data, by=visitor.name)
    await server.engine.runs.answer(run_id, given.key, reply)
    return {"run_id": run_id, "key": given.key}


@router.post("/messages", status_code=202, responses=responses(404, 409))
async def say(server: Server, visitor: Answerer, run_id: str, given: GivenMessage) -> dict[str, JsonValue]:
    """Tell the members something; each reads it with its next turn."""
    return (await server.engine.runs.say(run_id, given.text, to=given.to, by=visitor.name)).to_json()


@router.post("/members/{member}/pause", status_code=202, responses=responses(404, 409))
async def pause_member(server: Server, visitor: Answerer, run_id: str, member: str) -> dict[str, JsonValue]:
    """Let a member wait before its next turn."""
    return (await server.engine.runs.pause_member(run_id, member, by=visitor.name)).to_json()


@router.post("/members/{member}/resume", status_code=202, responses=responses(404, 409))
async def resume_member(server: Server, visitor: Answerer, run_id: str, member: str) -> dict[str, JsonValue]:
    """Let a paused member go on."""
    return (await server.engine.runs.resume_member(run_id, member, by=visitor.name)).to_json()


@router.post("/limits", status_code=202, responses=responses(404, 409))
async def raise_budget(server: Server, visitor: Runner, run_id: str, given: RaisedLimits) -> dict[str, JsonValue]:
    """Raise limits of the run and of its team."""
    limits = Limits.model_validate(given.model_dump(exclude_none=True))
    return (await server.engine.runs.raise_budget(run_id, limits, by=visitor.name)).to_json()
