"""Members whose calls wait at a desk until a test answers them, one at a time and as it likes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import AgentError, AgentTimeout, ContextTooLong, RateLimited, Refused, ServiceError, StaleWrite
from teamwright.values.limits.limits import Limits, Pace
from teamwright.values.limits.retry import RetryPolicy
from teamwright.values.limits.usage import Usage
from teamwright.values.models import JsonValue
from teamwright.values.people.approvals import Approve
from teamwright.values.people.questions import Answer, Question
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply, Turn

TROUBLE = "trouble"
"""Stands in the words of every failure, and must stand nowhere else."""

ERRORS: list[type[AgentError]] = [Refused, ServiceError, ContextTooLong, AgentTimeout, AgentError, RateLimited]
PROMPT_BYTES, FRAME, CAP = 20, 16, 24
BOARD, NAP = "board", 0.3
PLAIN = "call"
"""The place of the one effect of a plain function."""

Said = Mapping[str, JsonValue]
"""What a call brings back: `text`, and beside it `data`, `terminate`, `put`, `update`, `nap`, `ask`, `fail`."""


@dataclass(slots=True)
class Call:
    """A call that waits for its answer."""

    key: str
    attempt: int
    member: str
    turn: Turn
    answer: asyncio.Future[Said | AgentError]


@dataclass
class Desk:
    """Where all calls of a run come to. `seen` is told of each that leaves, and says what is wrong with that."""

    seen: Callable[[str, int], str | None] = lambda key, attempt: None
    find: Callable[[str, Turn], str] = lambda member, turn: ""
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    left: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    objections: list[str] = field(default_factory=list[str])
    given: dict[tuple[str, int], Said | AgentError] = field(default_factory=dict[tuple[str, int], "Said | AgentError"])

    async def wait(self, key: str, attempt: int, member: str, turn: Turn) -> Said:
        """A call has come; it goes back when it is answered."""
        self.left[key, attempt] += 1
        if objection := self.seen(key, attempt):
            self.objections.append(objection)
        call = self.calls[key] = Call(key, attempt, member, turn, asyncio.get_running_loop().create_future())
        try:
            said = await call.answer
        finally:
            del self.calls[key]
        if isinstance(said, AgentError):
            raise said
        return said

    def answer(self, call: Call, said: Said | AgentError) -> None:
        """Let a call go back."""
        self.given[call.key, call.attempt] = said
        call.answer.set_result(said)


@dataclass(frozen=True)
class Leaf:
    """A member that is no team. A plain one is a function of one parameter; another makes `calls` effects itself.

    The effects of a `paced` one go to a model that takes as many at once; one that `writes` does so after each, and
    `rest` are the seconds before it tries again.
    """

    name: str
    calls: int = 1
    plain: bool = False
    retries: int = 0
    optional: bool = False
    critical: bool = False
    fallback: Leaf | None = None
    limits: Limits | None = None
    capped: bool = True
    paced: int | None = None
    approve: Approve | None = None
    writes: Literal["over", "swap"] | None = None
    rest: float = 0

    def agent(self, desk: Desk, known: dict[str, Any]) -> FunctionAgent:
        """The member, made once for each team."""
        if self.name not in known:
            known[self.name] = FunctionAgent(
                self.name,
                self._plain(desk) if self.plain else self._acting(desk),
                optional=self.optional,
                critical=self.critical,
                limits=self.limits,
                retry=RetryPolicy(attempts=0 if self.plain else self.retries, backoff=self.rest),
                fallback=self.fallback.agent(desk, known) if self.fallback else None,
                can_terminate=True,
                approve=self.approve,
            )
        return known[self.name]

    def _plain(self, desk: Desk) -> Callable[..., Any]:
        async def respond(turn: Turn) -> Reply:
            desk.told.append((self.name, turn.prompt))
            said = await desk.wait(f"{desk.find(self.name, turn)}/{PLAIN}", 0, self.name, turn)
            return self._reply(said)

        return respond

    def _acting(self, desk: Desk) -> Callable[..., Any]:
        async def call(turn: Turn, attempt: Attempt) -> Returned:
            said = await desk.wait(attempt.key, attempt.number, self.name, turn)
            usage = Usage(requests=1, input_tokens=PROMPT_BYTES, output_tokens=min(attempt.max_output or 0, 7))
            return Returned(dict(said), usage)

        async def respond(turn: Turn, ctx: Context) -> Reply:
            desk.told.append((self.name, turn.prompt))
            said: Said = {"text": f"{self.name} knows {turn.digest[:6]}"}
            for number in range(1, self.calls + 1):
                board = ctx.workspace.get(BOARD)
                request = digest(turn.digest, str(number), str(board.version if board else 0))
                effect = Effect(
                    "model", "desk", request, partial(call, turn),
                    prompt_bytes=PROMPT_BYTES, messages=1, max_output=CAP if self.capped else None,
                    retry=RetryPolicy(attempts=self.retries, backoff=self.rest),
                    model="slow" if self.paced else "", pace=Pace(concurrency=self.paced) if self.paced else None,
                )  # fmt: skip
                said = cast("Said", (await ctx.effect(f"e{number}", effect)).value)
                said = await self._with_what_is_shared(said, ctx)
                if said.get("nap"):
                    await ctx.clock.sleep(NAP)
                if said.get("ask"):
                    heard = await ctx.ask_person(Question(text="well?"), key=f"q{number}")
                    said = {**said, "text": f"{said['text']} heard {heard.text}"}
            if said.get("fail"):
                raise Refused(f"{TROUBLE} in {self.name}")
            return self._reply(said)

        return respond

    async def _with_what_is_shared(self, said: Said, ctx: Context) -> Said:
        """Write to the workspace what is to be written, and say what was there."""
        match said.get("put", self.writes):
            case "over":
                version = await ctx.workspace.put(BOARD, said["text"])
                return {**said, "text": f"{said['text']} wrote {version}"}
            case "swap":
                held = ctx.workspace.get(BOARD)
                try:
                    version = await ctx.workspace.put(BOARD, said["text"], version=held.version if held else 0)
                except StaleWrite as stale:
                    return {**said, "text": f"{said['text']} lost to {stale.by} at {stale.version}"}
                return {**said, "text": f"{said['text']} won {version} from {held.by if held else 'nobody'}"}
            case _:
                return said

    def _reply(self, said: Said) -> Reply:
        text = str(said["text"])
        return Reply.of(
            self.name,
            text,
            data=said.get("data"),
            signal="terminate" if said.get("terminate") else None,
            context_updates={"mood": text} if said.get("update") else {},
        )


def answer_to(call: Call, choice: int) -> Said | AgentError:
    """One of the things that may come back from a call; what is asked for decides which things there are."""
    turn = call.turn
    if choice >= len(GENERAL):
        made = _asked_for(turn, choice - len(GENERAL))
        text = made if isinstance(made, str) else json.dumps(made)
        return {"text": text}
    return GENERAL[choice](call)


def plain_end(call: Call) -> Said:
    """An answer after which as little as possible follows."""
    made = _asked_for(call.turn, 0)
    return {"text": made if isinstance(made, str) else json.dumps(made)}


def _asked_for(turn: Turn, choice: int) -> JsonValue:
    """An answer in the form that is wanted; the first of each kind ends things."""
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


def _words(call: Call) -> str:
    return f"{call.member} to {call.turn.digest[:6]}"


GENERAL: list[Callable[[Call], Said | AgentError]] = [
    lambda call: {"text": _words(call)},
    lambda call: {"text": _words(call), "data": {"ok": True}},
    lambda call: {"text": _words(call), "put": "over"},
    lambda call: {"text": _words(call), "put": "swap"},
    lambda call: {"text": _words(call), "update": True},
    lambda call: {"text": _words(call), "terminate": True},
    lambda call: {"text": "", "data": {"ok": False}},
    lambda call: {"text": _words(call), "fail": True},
    lambda call: {"text": _words(call), "ask": True},
    lambda call: {"text": _words(call), "nap": True},
]
CHOICES = len(GENERAL) + 10
HARMLESS = [choice for choice in range(CHOICES) if choice not in (5, 7)]
"""Choices after which a team usually goes on."""


def error_for(call: Call, choice: int) -> AgentError:
    """One of the ways in which a call may fail."""
    return ERRORS[choice % len(ERRORS)](f"{TROUBLE} at {call.member}")


def personal_answer(question: Question, choice: int) -> Answer:
    """One of the things that a person may say; the first lets things go on."""
    match question.reason:
        case "approval":
            made = [Answer.approve(), Answer.edit("edited"), Answer.reject(TROUBLE)]
        case "failure":
            made = [Answer(text="skip"), Answer(text="retry"), Answer(text="abort")]
        case "question":
            made = [Answer(text="yes"), Answer(text="no", by="judge"), Answer(text="")]
    return made[choice % len(made)]
