"""Members whose calls stay pending until a test answers them, in any order."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import AgentError, AgentTimeout, ContextTooLong, RateLimited, Refused, ServiceError, StaleWrite
from teamwright.values.limits import Limits, Pace
from teamwright.values.people import Answer, Confirm, Question
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Usage
from teamwright.values.value import JsonValue

TROUBLE = "trouble"
"""Part of every failure message; it must appear nowhere else."""

ERRORS: list[type[AgentError]] = [Refused, ServiceError, ContextTooLong, AgentTimeout, AgentError, RateLimited]
PROMPT_BYTES, FRAME, CAP = 20, 16, 24
SHARED_NAME, SLEEP_SECONDS = "board", 0.3
PLAIN = "call"
"""The key of the only effect of a plain function."""

CallResult = Mapping[str, JsonValue]
"""The result of a call: `text`, and optionally `data`, `terminate`, `put`, `update`, `nap`, `ask`, `fail`."""


@dataclass(slots=True)
class Call:
    """A pending call."""

    key: str
    attempt: int
    member: str
    turn: Turn
    answer: asyncio.Future[CallResult | AgentError]


@dataclass
class PendingCalls:
    """The pending calls of a run. `check` is called for each dispatch and returns an objection, if there is one."""

    check: Callable[[str, int], str | None] = lambda key, attempt: None
    find_ask: Callable[[str, Turn], str] = lambda member, turn: ""
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    prompts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    dispatched: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    objections: list[str] = field(default_factory=list[str])
    answers: dict[tuple[str, int], CallResult | AgentError] = field(
        default_factory=dict[tuple[str, int], "CallResult | AgentError"]
    )

    async def wait(self, key: str, attempt: int, member: str, turn: Turn) -> CallResult:
        """Register a call and wait for its answer."""
        self.dispatched[key, attempt] += 1
        if objection := self.check(key, attempt):
            self.objections.append(objection)
        call = self.calls[key] = Call(key, attempt, member, turn, asyncio.get_running_loop().create_future())
        try:
            said = await call.answer
        finally:
            del self.calls[key]
        if isinstance(said, AgentError):
            raise said
        return said

    def answer(self, call: Call, said: CallResult | AgentError) -> None:
        """Complete a pending call, unless it was cancelled in this moment."""
        if call.answer.done():
            return
        self.answers[call.key, call.attempt] = said
        call.answer.set_result(said)


@dataclass(frozen=True)
class MemberSpec:
    """A member as data. A plain member is a function of one parameter; any other makes `calls` effects itself.

    `paced` is the concurrency of its model, `writes` is how it writes to the workspace after each effect, and `rest` is
    the backoff in seconds.
    """

    name: str
    calls: int = 1
    plain: bool = False
    retries: int = 0
    optional: bool = False
    critical: bool = False
    fallback: MemberSpec | None = None
    limits: Limits | None = None
    capped: bool = True
    paced: int | None = None
    confirm: Confirm | None = None
    writes: Literal["over", "swap"] | None = None
    rest: float = 0

    def agent(self, pending: PendingCalls, known: dict[str, Any]) -> FunctionAgent:
        """Make the member, once per team."""
        if self.name not in known:
            known[self.name] = FunctionAgent(
                self.name,
                self._plain(pending) if self.plain else self._acting(pending),
                optional=self.optional,
                critical=self.critical,
                limits=self.limits,
                retry=RetryPolicy(times=0 if self.plain else self.retries, backoff=self.rest),
                fallback=self.fallback.agent(pending, known) if self.fallback else None,
                can_terminate=True,
                confirm=self.confirm,
            )
        return known[self.name]

    def _plain(self, pending: PendingCalls) -> Callable[..., Any]:
        async def respond(turn: Turn) -> Reply:
            pending.prompts.append((self.name, turn.prompt))
            said = await pending.wait(f"{pending.find_ask(self.name, turn)}/{PLAIN}", 0, self.name, turn)
            return self._reply(said)

        return respond

    def _acting(self, pending: PendingCalls) -> Callable[..., Any]:
        async def call(turn: Turn, attempt: Attempt) -> Returned:
            said = await pending.wait(attempt.key, attempt.number, self.name, turn)
            usage = Usage(requests=1, input_tokens=PROMPT_BYTES, output_tokens=min(attempt.max_output or 0, 7))
            return Returned(dict(said), usage)

        async def respond(turn: Turn, ctx: Context) -> Reply:
            pending.prompts.append((self.name, turn.prompt))
            said: CallResult = {"text": f"{self.name} knows {turn.digest[:6]}"}
            for number in range(1, self.calls + 1):
                board = ctx.workspace.get(SHARED_NAME)
                request = digest(turn.digest, str(number), str(board.version if board else 0))
                effect = Effect(
                    "model", "desk", request, partial(call, turn),
                    prompt_bytes=PROMPT_BYTES, messages=1, max_output=CAP if self.capped else None,
                    retry=RetryPolicy(times=self.retries, backoff=self.rest),
                    model="slow" if self.paced else "", pace=Pace(max_parallel=self.paced) if self.paced else None,
                )  # fmt: skip
                said = cast("CallResult", (await ctx.effect(f"e{number}", effect)).value)
                said = await self._write_shared(said, ctx)
                if said.get("nap"):
                    await ctx.clock.sleep(SLEEP_SECONDS)
                if said.get("ask"):
                    heard = await ctx.ask_person(Question(text="well?"), key=f"q{number}")
                    said = {**said, "text": f"{said['text']} heard {heard.text}"}
            if said.get("fail"):
                raise Refused(f"{TROUBLE} in {self.name}")
            return self._reply(said)

        return respond

    async def _write_shared(self, said: CallResult, ctx: Context) -> CallResult:
        """Write to the workspace as the result says, and add the outcome to the text."""
        match said.get("put", self.writes):
            case "over":
                version = await ctx.workspace.put(SHARED_NAME, said["text"])
                return {**said, "text": f"{said['text']} wrote {version}"}
            case "swap":
                held = ctx.workspace.get(SHARED_NAME)
                try:
                    version = await ctx.workspace.put(SHARED_NAME, said["text"], version=held.version if held else 0)
                except StaleWrite as stale:
                    return {**said, "text": f"{said['text']} lost to {stale.by} at {stale.version}"}
                return {**said, "text": f"{said['text']} won {version} from {held.by if held else 'nobody'}"}
            case _:
                return said

    def _reply(self, said: CallResult) -> Reply:
        text = str(said["text"])
        return Reply.of(
            self.name,
            text,
            data=said.get("data"),
            signal="terminate" if said.get("terminate") else None,
            context_updates={"mood": text} if said.get("update") else {},
        )


def answer_to(call: Call, choice: int) -> CallResult | AgentError:
    """One of the possible results of a call, which depend on the requested output."""
    turn = call.turn
    if choice >= len(GENERAL):
        made = _structured_answer(turn, choice - len(GENERAL))
        text = made if isinstance(made, str) else json.dumps(made)
        return {"text": text}
    return GENERAL[choice](call)


def final_answer(call: Call) -> CallResult:
    """The answer that leads to the fewest further calls."""
    made = _structured_answer(call.turn, 0)
    return {"text": made if isinstance(made, str) else json.dumps(made)}


def _structured_answer(turn: Turn, choice: int) -> JsonValue:
    """An answer of the requested form; choice 0 ends the work."""
    wanted = cast("dict[str, Any]", dict(turn.output_schema or {})).get("properties", {})
    if "action" in wanted:
        names = wanted["delegations"]["items"]["properties"]["specialist"]["enum"]
        work: list[JsonValue] = [{"specialist": one, "task": f"do {one}"} for one in names]
        forms: list[JsonValue] = [
            {"action": "synthesize", "synthesis": f"all of {turn.digest[:6]}"},
            {"action": "delegate", "delegations": work},
            {"action": "delegate", "delegations": work[:1]},
            {"action": "clarify", "question": "well?"},
            {"action": "delegate", "delegations": [*work, *work]},
        ]
    elif "chunks" in wanted:
        forms = [{"chunks": ["one"]}, {"chunks": ["one", "two", "one"]}, [], ["a", {"b": 1}]]
    elif "events" in wanted:
        go: JsonValue = {"type": "go", "data": turn.digest[:6]}
        forms = [
            {"events": []},
            {"events": [go]},
            {"events": [go, {"type": "done"}]},
            {"events": [], "state": {"n": 1}},
            {"events": 7},
        ]
    elif "member" in wanted:
        forms = list(wanted["member"]["enum"])
    else:
        forms = ["fine", f"again {turn.digest[:6]}", "no"]
    return forms[choice % len(forms)]


def _text(call: Call) -> str:
    return f"{call.member} to {call.turn.digest[:6]}"


GENERAL: list[Callable[[Call], CallResult | AgentError]] = [
    lambda call: {"text": _text(call)},
    lambda call: {"text": _text(call), "data": {"ok": True}},
    lambda call: {"text": _text(call), "put": "over"},
    lambda call: {"text": _text(call), "put": "swap"},
    lambda call: {"text": _text(call), "update": True},
    lambda call: {"text": _text(call), "terminate": True},
    lambda call: {"text": "", "data": {"ok": False}},
    lambda call: {"text": _text(call), "fail": True},
    lambda call: {"text": _text(call), "ask": True},
    lambda call: {"text": _text(call), "nap": True},
]
CHOICES = len(GENERAL) + 10
HARMLESS = [choice for choice in range(CHOICES) if choice not in (5, 7)]
"""Choices that do not end a team."""


def error_for(call: Call, choice: int) -> AgentError:
    """One of the possible errors of a call."""
    return ERRORS[choice % len(ERRORS)](f"{TROUBLE} at {call.member}")


def person_answer(question: Question, choice: int) -> Answer:
    """One of the possible answers of a person; choice 0 lets the run continue."""
    match question.reason:
        case "approval":
            made = [Answer.approve(), Answer.edit("edited"), Answer.reject(TROUBLE)]
        case "failure":
            made = [Answer(text="skip"), Answer(text="retry"), Answer(text="abort")]
        case "question":
            made = [Answer(text="yes"), Answer(text="no", by="judge"), Answer(text="")]
        case "pause":
            made = [Answer(text="resume")]
    return made[choice % len(made)]
