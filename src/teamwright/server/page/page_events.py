"""Page events: what a page shows of a run, as values with a JSON Schema.

Each event of a journal yields zero or more page events, which carry its number and an index among them. All fields are
always present, texts are whole and masked, and nothing refers to the journal: a page needs no other reading. A value
that is the same as a recorded one inherits its fields, and differs in that its defaults are written out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, cast

import msgspec

from teamwright.values.limits import Amounts, Quantiles
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.results import Status
from teamwright.values.turns.turn import CriterionResult, Purpose, VerdictOutcome
from teamwright.values.value import JsonValue, Record

TITLE = "Page events of a Teamwright run"
PAGE_VERSION = 1
"""The version of the schema; fields and kinds are only added to it."""

StepState = Literal[
    "pending", "waiting", "running", "completed", "degraded", "skipped", "failed", "timeout", "cancelled"
]
MessageKind = Literal["chat", "handoff", "assist_request", "assist", "decision", "plan_update", "milestone"]
WaitKind = Literal["person", "budget", "keys", "retry", "member"]
DeltaPart = Literal["text", "thinking", "arguments"]


@cache
def kind_of(name: str) -> str:
    """Return the kind of a page event from the name of its class: `PageToolCall` is `tool_call`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("Page")).lower()


class PageValue(Record, frozen=True, omit_defaults=False):
    """A part of a page event."""


class PageExpert(PageValue, frozen=True):
    """Who a page event is about, and how a page shows it. Experts of nested teams have ids below the team's name."""

    id: str
    name: str
    colour: str
    avatar: str


class PageUsage(PageValue, frozen=True):
    """What calls used; `usd` is null where no price is known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    total_tokens: int = 0
    usd: float | None = None
    saved_usd: float | None = None


class PageAmounts(Amounts, frozen=True, omit_defaults=False):
    """Limits or amounts of a budget; null where there is none."""


class PageForecast(PageValue, frozen=True):
    """What a run was expected to spend before it started, and what that rests on."""

    basis: str
    runs: int = 0
    tokens: Quantiles | None = None
    usd: Quantiles | None = None
    asks: Quantiles | None = None


class PageOrigin(PageValue, frozen=True):
    """The run and the event that a run was forked from, or that it continues."""

    run_id: str
    number: int
    how: Literal["fork", "continue"]
    checkpoint: str = ""


class PageArtifact(Artifact, frozen=True, omit_defaults=False):
    """A file or a large text that a member produced."""


class PageFailure(PageValue, frozen=True):
    """Why a member gave no reply: an error for programs, and a message for people."""

    error: str
    message: str


class PageCriterion(CriterionResult, frozen=True, omit_defaults=False):
    """The result of one criterion; `by` is the judge, empty for a check."""


class PageJudge(PageValue, frozen=True):
    """How a judge scored; `spread` is the difference between its highest and its lowest score."""

    name: str
    model: str
    scores: tuple[float, ...] = ()
    spread: float = 0.0


class PagePart(PageValue, frozen=True):
    """A part of a step that experts work on side by side."""

    id: str
    assignee: str
    task: str = ""


class PagePlanStep(PageValue, frozen=True):
    """A step of a plan. `assignees` are ids of experts; the first is who the plan names, the others work beside it."""

    id: str
    name: str
    task: str
    assignees: tuple[str, ...]
    needs: tuple[str, ...]
    state: StepState
    mode: Literal["single", "subtasks", "compete"] = "single"
    merge: str = ""
    milestone: bool = False
    parts: tuple[PagePart, ...] = ()
    owns: tuple[str, ...] = ()
    when: str = ""
    priority: int = 0


class _PageEvent(PageValue, frozen=True, tag_field="kind", tag=kind_of):
    """What all page events have: `scope` is the path of the team, and `key` the place of the ask, call or step."""

    number: int
    index: int
    time: float
    scope: str
    key: str
    expert: PageExpert | None


class PageRun(_PageEvent, frozen=True):
    """The run started, paused, was resumed, interrupted or queued, or ended; later ones leave out what is unchanged."""

    state: Literal["started", "paused", "resumed", "interrupted", "queued", "ended"]
    status: Status
    reason: str = ""
    team: str = ""
    strategy: str = ""
    task: str = ""
    limits: PageAmounts | None = None
    forecast: PageForecast | None = None
    origin: PageOrigin | None = None
    conversation: str = ""
    output: str = ""
    data: JsonValue = None
    usage: PageUsage | None = None
    seconds: float | None = None
    failure: PageFailure | None = None
    warnings: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()


class PageTeamFormed(_PageEvent, frozen=True):
    """A team began to work; a nested team has a scope of its own."""

    team: str
    strategy: str
    members: tuple[PageExpert, ...]
    lead: str = ""
    share: str = ""
    description: str = ""


class PageTeamLife(_PageEvent, frozen=True):
    """A live team is in this state from now on."""

    state: str
    lead: str = ""
    reason: str = ""


class PageTeamDissolved(_PageEvent, frozen=True):
    """A team ended; `failure` says why where it gave no answer."""

    team: str
    reason: str
    turns: int = 0
    seconds: float = 0.0
    failure: PageFailure | None = None


class PageTeamSynthesis(_PageEvent, frozen=True):
    """The answer of a team; of one that `failed`, what it had until then, which is no answer."""

    team: str
    text: str
    data: JsonValue = None
    usage: PageUsage | None = None
    warnings: tuple[str, ...] = ()
    failed: bool = False


class PageExpertJoined(_PageEvent, frozen=True):
    """An expert appeared that was not among the team's members when it formed, or was added to it."""

    role: Literal["member", "lead", "coordinator", "judge", "tool"]
    description: str = ""
    reason: str = ""


class PageExpertLeft(_PageEvent, frozen=True):
    """An expert left its team; what it has done is kept."""

    reason: str = ""


class PageExpertStep(_PageEvent, frozen=True):
    """An expert was asked. `task` is the beginning of its task, `asker` the expert that asks it as a tool."""

    purpose: Purpose
    member_kind: str
    turn: int
    attempt: int = 1
    step: str = ""
    task: str = ""
    asker: str = ""


class PageExpertResult(_PageEvent, frozen=True):
    """The reply of an expert, or its failure."""

    text: str
    purpose: Purpose
    step: str = ""
    data: JsonValue = None
    usage: PageUsage = PageUsage()
    cost: float | None = None
    seconds: float = 0.0
    failure: PageFailure | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    artifacts: tuple[PageArtifact, ...] = ()
    transfer_to: str = ""


class PageMessage(_PageEvent, frozen=True):
    """Something that an expert, or the team, says to others; `to` are ids of experts, and empty means all."""

    type: MessageKind
    text: str
    to: tuple[str, ...] = ()
    step: str = ""
    round: int = 0
    original: str = ""


class PageToolCall(_PageEvent, frozen=True):
    """A tool is called in a `turn`. With a `method`, the MCP server `tool` is asked for its tools."""

    turn: str
    tool: str
    arguments: JsonValue = None
    attempt: int = 1
    in_doubt: bool = False
    method: str = ""


class PageToolResult(_PageEvent, frozen=True):
    """A tool call returned, failed, or was rejected before it was made; with `retry_in` it is made again."""

    turn: str
    tool: str
    result: JsonValue = None
    seconds: float = 0.0
    failure: PageFailure | None = None
    retry_in: float | None = None
    artifacts: tuple[PageArtifact, ...] = ()


class PageThinking(_PageEvent, frozen=True):
    """What a model thought, or wrote beside its tool calls, before it replied."""

    turn: str
    text: str
    part: Literal["thinking", "text"] = "thinking"


class PageVerdict(_PageEvent, frozen=True):
    """The verdict on the work of an expert; `work` is the key of the judged result."""

    work: str
    attempt: int
    outcome: VerdictOutcome
    score: float | None
    criteria: tuple[PageCriterion, ...]
    judge: str = ""
    judges: tuple[PageJudge, ...] = ()
    feedback: str = ""
    suggestions: tuple[str, ...] = ()
    step: str = ""
    revises: str = ""
    warnings: tuple[str, ...] = ()


class PageVote(_PageEvent, frozen=True):
    """Answers of a competition became one: `entries` are authors by answer, and `votes` answers by voter."""

    step: str
    merge: str
    entries: dict[str, str]
    votes: dict[str, str]
    winner: str = ""
    by: str = ""
    tied: tuple[str, ...] = ()
    reason: str = ""


class PagePlanUpdate(_PageEvent, frozen=True):
    """The plan of a team: version 0 is the declared one. With an empty `by` a person changed it."""

    version: int
    status: str
    steps: tuple[PagePlanStep, ...]
    difference: tuple[str, ...] = ()
    by: str = ""
    lead: str = ""
    reason: str = ""
    to: tuple[str, ...] = ()


class PageStep(_PageEvent, frozen=True):
    """A step of a plan has another state."""

    step: str
    state: StepState
    attempt: int = 1
    assignees: tuple[str, ...] = ()
    reason: str = ""
    verdict: str = ""
    score: float | None = None


class PageIntervention(_PageEvent, frozen=True):
    """What a person did to the run: `id` is the same when it is accepted, refused, and when it takes effect."""

    id: int
    what: str
    state: Literal["accepted", "applied", "refused"]
    by: str = ""
    to: str = ""
    text: str = ""
    data: JsonValue = None
    reason: str = ""


class PageQuestion(_PageEvent, frozen=True):
    """A question to a person; its `key` is what the answer names."""

    text: str
    reason: str
    choices: tuple[str, ...] = ()
    to: str = ""
    draft: str | None = None
    form: Literal["text", "json"] = "text"
    turn: str = ""


class PageAnswer(_PageEvent, frozen=True):
    """The answer of a person to the question with the same key."""

    text: str
    data: JsonValue = None
    by: str = ""


class PageBudget(_PageEvent, frozen=True):
    """What a level of the budget has spent and reserved; `level` is a path, empty for the run.

    `rungs` are the steps of the degradation ladder that apply to the team, and `rung` the one that has just changed.
    """

    level: str
    spent: PageAmounts
    reserved: PageAmounts
    limits: PageAmounts | None = None
    rung: str = ""
    rungs: tuple[str, ...] = ()


class PageWait(_PageEvent, frozen=True):
    """An expert waits, or no longer waits (`ended`, same key): for a person, a budget, keys, a retry or a member."""

    what: WaitKind
    whom: tuple[str, ...] = ()
    text: str = ""
    step: str = ""
    seconds: float | None = None
    ended: bool = False


class PageCheckpoint(_PageEvent, frozen=True):
    """A named checkpoint."""

    name: str
    by: str = ""


class PageWarning(_PageEvent, frozen=True):
    """Something out of the ordinary, in words; `code` is the kind of the journal's event."""

    text: str
    code: str


class PageNote(_PageEvent, frozen=True):
    """Something worth knowing, in words; `done` is the finished share of a tool's call."""

    text: str
    code: str
    done: float | None = None


PageEvent = (
    PageRun | PageTeamFormed | PageTeamLife | PageTeamDissolved | PageTeamSynthesis
    | PageExpertJoined | PageExpertLeft | PageExpertStep | PageExpertResult
    | PageMessage | PageToolCall | PageToolResult | PageThinking
    | PageVerdict | PageVote | PagePlanUpdate | PageStep
    | PageIntervention | PageQuestion | PageAnswer
    | PageBudget | PageWait | PageCheckpoint | PageWarning | PageNote
)  # fmt: skip


class PageDelta(PageValue, frozen=True, tag_field="kind", tag=kind_of):
    """A piece of what a model is writing, never stored; the expert's result replaces all pieces of its `key`.

    `offset` counts the characters of the same part before it: at 0 the part begins again. A client that joins in the
    middle of a part first gets all of it so far, as one piece. `steps` are the steps of a plan that it completes.
    """

    key: str
    scope: str
    expert: PageExpert | None
    part: DeltaPart
    text: str
    offset: int
    attempt: int = 1
    tool: str = ""
    call: int = 0
    steps: tuple[str, ...] = ()


encode = msgspec.json.Encoder().encode
"""Write a page event, or a list of them, as JSON."""


def page_schema() -> dict[str, JsonValue]:
    """Return the schema of one item of a run's feed: a page event or a delta. All fields are always present."""
    made = cast("dict[str, JsonValue]", msgspec.json.schema(PageEvent | PageDelta))
    kinds = cast("dict[str, JsonValue]", made.pop("$defs"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "version": PAGE_VERSION,
        **made,
        "$defs": {name: _complete(cast("dict[str, JsonValue]", one)) for name, one in sorted(kinds.items())},
    }


def _complete(kind: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Require all fields, which have no defaults for a reader, and allow those of newer versions."""
    fields = cast("dict[str, dict[str, JsonValue]]", kind["properties"])
    plain: dict[str, JsonValue] = {
        name: {key: value for key, value in one.items() if key != "default"} for name, one in fields.items()
    }
    text = " ".join(str(kind.get("description", "")).split())
    return {**kind, "description": text, "properties": plain, "required": list(plain), "additionalProperties": True}
