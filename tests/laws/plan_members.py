"""Members of random plans: what each answers follows from its name, the key of the ask and a salt, and nothing else.

So a resumed run hears what the first one heard. Calls return one at a time, when nothing else is left to do.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

from teamwright.agents.agent import Agent, Context, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.evaluators import EVALUATOR, Evaluator
from teamwright.errors import AgentError, ContextTooLong, InvalidRequest, Refused, ServiceError, UsageError
from teamwright.values.people import ACCEPT, REVISE, STOP, Answer, Question, is_review
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.usage_and_prices import Usage

TROUBLE = "trouble"
"""Part of the message of every failure; no prompt may contain it."""
ERRORS: tuple[type[AgentError], ...] = (Refused, ServiceError, AgentError, ContextTooLong, InvalidRequest)
CALL = "call"
PROMPT_BYTES, CAP, USED = 24, 24, 7
QUIET = 3
"""How many iterations of the event loop have nothing else to do before a call returns."""
FIRST_IDS = ("s1", "s2", "s3", "s4")
MARK = re.compile(r"\[([0-9a-f]{8})\]")
JUDGED = "You judge the work below."
"""How the prompt of a judge begins, also of one that asks others."""
WORDS = ("ask", "hand_over", "message")
_STEP = re.compile(r"[Tt]he step '([^']+)' of the plan")
_CRITERION = re.compile(r"^\W*- ([\w-]+): ", re.MULTILINE)


class Habits(NamedTuple):
    """How members behave, each in percent: fail, work badly, answer in no form, talk, propose, end the team.

    `requests` is how much a member that talks says in one turn at most.
    """

    fails: int = 0
    poor: int = 0
    garbled: int = 0
    talks: int = 0
    proposes: int = 0
    terminates: int = 0
    requests: int = 1


class Said(NamedTuple):
    """A request that a member made at an ask, and that was taken: how, to whom, its text, and its place in the turn."""

    key: str
    how: str
    to: str
    text: str
    is_first: bool


def mark_of(key: str) -> str:
    """The mark in the work that an ask has given."""
    return f"{crc32(re.sub('#[0-9]+', '', key).encode()):08x}"


@dataclass
class Desk:
    """What the members of one run were asked. `meanwhile` is called in each call, with its number."""

    salt: int
    habits: Habits
    names: Sequence[str] = ()
    meanwhile: Callable[[int], Awaitable[None]] | None = None
    called: list[str] = field(default_factory=list[str])
    prompts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The keys of asks, and what the member read there."""
    stronger: list[str] = field(default_factory=list[str])
    """The keys of asks of a stronger model."""
    said: list[Said] = field(default_factory=list[Said])
    _waiting: dict[str, asyncio.Future[bool]] = field(default_factory=dict[str, "asyncio.Future[bool]"])
    _is_watched: bool = False

    def clear(self) -> None:
        """Forget what was asked, before another driver takes over."""
        self.meanwhile = None
        self.called.clear()
        self.prompts.clear()
        self.stronger.clear()
        self.said.clear()

    def chance(self, key: str, what: str, percent: int) -> bool:
        """Whether something happens at an ask."""
        return self.number(key, what) % 100 < percent

    def number(self, key: str, what: str) -> int:
        """A number that an ask always has."""
        return crc32(f"{self.salt}:{what}:{key}".encode())

    async def call(self, name: str, turn: Turn, attempt: Attempt) -> Returned:
        """Answer a call, or fail."""
        key = attempt.key.removesuffix(f"/{CALL}")
        self.called.append(attempt.key)
        self.prompts.append((key, turn.prompt))
        if turn.tier == "stronger":
            self.stronger.append(key)
        if self.meanwhile is not None:
            await self.meanwhile(len(self.called))
        await self._wait(attempt.key)
        if self.chance(key, "fail", self.habits.fails):
            error = ERRORS[self.number(key, "error") % len(ERRORS)]
            raise error(f"{TROUBLE} of {name}")
        usage = Usage(requests=1, input_tokens=PROMPT_BYTES // 4, output_tokens=min(USED, attempt.max_output or USED))
        return Returned(self._answer(name, turn, key), usage)

    async def _wait(self, key: str) -> None:
        """Wait until this call is the one to return; one of those that wait looks after all of them."""
        loop = asyncio.get_running_loop()
        own = self._waiting[key] = loop.create_future()
        try:
            while not own.done() or not own.result():
                if own.done():
                    own = self._waiting[key] = loop.create_future()
                if self._is_watched:
                    await own
                else:
                    self._is_watched = True
                    try:
                        await self._watch(own)
                    finally:
                        self._is_watched = False
        finally:
            del self._waiting[key]
            if not self._is_watched:
                for other in self._waiting.values():  # one of them watches from now on
                    if not other.done():
                        other.set_result(False)
                    break

    async def _watch(self, own: asyncio.Future[bool]) -> None:
        """Let calls return, each when nothing else is left to do, until it is the turn of this one."""
        ready: Any = asyncio.get_running_loop()._ready  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        quiet = 0
        while True:
            await asyncio.sleep(0)
            quiet = 0 if ready else quiet + 1
            if quiet < QUIET:
                continue
            key = min(self._waiting, key=lambda one: self.number(one, "turn"))
            chosen, quiet = self._waiting[key], 0
            if not chosen.done():
                chosen.set_result(True)
            if chosen is own:
                return

    def _answer(self, name: str, turn: Turn, key: str) -> dict[str, Any]:
        fields: Any = (turn.output_schema or {}).get("properties", {})
        judges = turn.purpose == "judge" or JUDGED in turn.prompt
        if judges or fields:
            if self.chance(key, "garbled", self.habits.garbled):
                return {"text": "I would rather not say."}
            made = self._judgement(turn, key) if judges else self._decision(fields, turn, key)
            return {"text": json.dumps(made), "terminate": self._terminates(key)}
        text = f"{'poor' if self.chance(key, 'poor', self.habits.poor) else 'good'} work of {name} [{mark_of(key)}]"
        if self.chance(key, "blank", self.habits.poor // 4):
            text = " "
        elif self.chance(key, "none", self.habits.poor // 4):
            text = "NOTHING FOUND"
        if self.chance(key, "propose", self.habits.proposes):
            text += f"\n```json\n{json.dumps({'plan_change': self._proposal(key)})}\n```"
        said: dict[str, Any] = {"text": text, "terminate": self._terminates(key)}
        if self.chance(key, "talk", self.habits.talks):
            said |= {"key": key, "requests": self._requests(key)}
        return said

    def _requests(self, key: str) -> list[list[str]]:
        """What a member says to others in one turn: how, and to whom."""
        names = (*self.names, "stranger")
        places = [f"{key}/{one}" for one in range(1 + self.number(key, "requests") % self.habits.requests)]
        return [[WORDS[self.number(at, "how") % 3], names[self.number(at, "to") % len(names)]] for at in places]

    def _terminates(self, key: str) -> bool:
        return self.chance(key, "terminate", self.habits.terminates)

    def _judgement(self, turn: Turn, key: str) -> object:
        passed = not self.chance(key, "strict", self.habits.poor)
        ids = dict.fromkeys(_CRITERION.findall(turn.prompt))
        return {"criteria": [{"id": one, "passed": passed, "score": float(passed), "reason": ""} for one in ids]}

    def _decision(self, fields: Any, turn: Turn, key: str) -> object:
        if "chosen" in fields:
            return self._choice(fields, key)
        if "winner" in fields:
            names = fields["winner"]["enum"]
            return {"winner": names[self.number(key, "winner") % len(names)], "reason": "It is clear."}
        if "approve" in fields:
            return {"approve": self.chance(key, "approve", 70), "reason": "It helps."}
        if "put" in fields:
            return self._change(fields["put"]["items"]["properties"], turn, key)
        steps = fields["steps"]
        form, most = steps["items"]["properties"], min(3, steps["maxItems"])
        if "action" in fields:
            if turn.number > 1 + self.number(key, "rounds") % 3:
                return {"action": "answer"}
            return {"action": "work", "steps": self._steps(form, most, key, f"d{turn.number}-")}
        prefix = f"r{turn.number}-" if "reason" in fields else "s"
        return {"reason": f"Attempt {turn.number}.", "steps": self._steps(form, most, key, prefix)}

    def _choice(self, fields: Any, key: str) -> object:
        """A decision with which a debate ends; a poor one chooses what was no option."""
        how = "poor" if self.chance(key, "poor", self.habits.poor) else "good"
        against = fields["dissent"]["items"]["properties"]["member"]["enum"]
        return {
            "options": ["the good way", "no way"],
            "chosen": f"the {how} way",
            "reasons": [f"It is {how} [{mark_of(key)}]."],
            "dissent": [{"member": against[self.number(key, "against") % len(against)], "says": "Not so."}],
        }

    def _steps(self, form: Any, most: int, key: str, prefix: str) -> list[object]:
        made: list[Any] = []
        for place in range(1, 2 + self.number(key, "count") % most):
            at = f"{key}/{place}"
            step = self._step(f"{prefix}{place}", form, at)
            step["needs"] = [one["id"] for one in made if self.chance(f"{at}/{one['id']}", "needs", 40)]
            made.append(step)
        return made

    def _step(self, id_: str, form: Any, at: str) -> dict[str, Any]:
        """A step as the form of the plan allows it: of one member or, if it has shared ones, sometimes of several."""
        names: list[str] = [*form["role"].get("enum", form["role"].get("examples", ["a"]))]
        role = names[self.number(at, "role") % len(names)]
        step: dict[str, Any] = {"id": id_, "role": role, "task": f"Work {self.number(at, 'task') % 1000}."}
        if "parallel" not in form:
            return step
        members = form["agents"]["items"]["enum"]
        if self.chance(at, "milestone", 25):
            step["milestone"] = ["Is it good?"]
        if len(members) > 2 and self.chance(at, "race", 25):
            merge = ("best", "vote", "fusion")[self.number(at, "merge") % 3]
            step |= {"parallel": "competitive_parallel", "agents": members[-2:], "merge": merge}
        elif self.chance(at, "parts", 25):
            parts = [{"id": f"p{one}", "agent": one, "task": "A part."} for one in members[-2:]]
            step |= {"parallel": "subtask_parallel", "parts": parts if self.chance(at, "split", 60) else []}
        return step

    def _change(self, form: Any, turn: Turn, key: str) -> object:
        if self.chance(key, "keep", 40):
            return {}
        named = _STEP.search(turn.prompt)
        if named is None:  # a person said something
            if self.chance(key, "remove", 30):
                return {"remove": [FIRST_IDS[self.number(key, "which") % len(FIRST_IDS)]], "reason": "They asked."}
            ids = (*FIRST_IDS, "e1", f"x{self.number(key, 'x') % 90}")
            return {"put": [self._step(ids[self.number(key, "id") % len(ids)], form, key)], "reason": "They asked."}
        return {"put": [self._step(named[1], form, key)], "reason": "Another way."}

    def _proposal(self, key: str) -> object:
        step = {"id": f"n{self.number(key, 'n') % 90}", "role": self.names[-1], "task": "One thing more."}
        if self.chance(key, "other", 40):
            step["id"] = FIRST_IDS[self.number(key, "which") % len(FIRST_IDS)]
        return {"put": [step], "remove": [], "reason": "It is missing."}

    def member(self, name: str, *, talks: bool = False, able: tuple[str, ...] = ()) -> Agent:
        """A member whose only call is answered here; one that `talks` asks and tells others."""
        return DeskMember(self, name, talks=talks, able=able)

    async def respond(self, name: str, turn: Turn, ctx: Context, *, talks: bool) -> Reply:
        """Answer a turn of a member."""
        effect = Effect(
            "model", "desk", digest(turn.digest), partial(self.call, name, turn),
            prompt_bytes=PROMPT_BYTES, messages=1, max_output=CAP, retry=RetryPolicy(times=0),
        )  # fmt: skip
        said: Any = (await ctx.effect(CALL, effect)).value
        if talks and turn.purpose == "work":
            await self._talk(said, ctx)
        return Reply.of(name, said["text"], signal="terminate" if said.get("terminate") else None)

    async def _talk(self, said: Any, ctx: Context) -> None:
        """Say what a member wants of others; it is refused where no colleague would hear it."""
        is_first = True
        for number, (how, to) in enumerate(said.get("requests", ())):
            text = f"Is that so, {mark_of(said['key'])}-{number}?"
            with suppress(UsageError):
                if how == "message":
                    await ctx.message(text, key=f"say-{number}")
                else:
                    await ctx.ask_member(to, text, key=f"say-{number}", hand_over=how == "hand_over")
                self.said.append(Said(said["key"], how, to, text, is_first))
                is_first = is_first and how == "message"

    def person(self, question: Question, key: str) -> Answer:
        """What people answer: mostly what lets the work go on."""
        which = self.number(key, "person") % 100
        if question.reason == "pause":
            return Answer(text="resume")
        if is_review(question):
            return Answer(text=ACCEPT if which < 40 else REVISE if which < 70 and "review-1" in key else STOP)
        if which < 70 or question.draft is None:
            return Answer.approve()
        if which < 80:
            return Answer.reject("no")
        return Answer.edit(self._edited(json.loads(question.draft)))

    def _edited(self, plan: Any) -> Any:
        steps = plan.get("steps") or plan.get("put") or ()
        for step in steps[:1]:
            step["task"] = "As a person wants it."
        return plan


POLICY = Policy(can_terminate=True)


class DeskMember(Agent):
    """A member whose answers come from a desk."""

    kind, policy = "function", POLICY

    def __init__(self, desk: Desk, name: str, *, talks: bool, able: tuple[str, ...]) -> None:
        self._desk, self.name, self._talks, self.capabilities = desk, name, talks, able

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn."""
        return await self._desk.respond(self.name, turn, ctx, talks=self._talks)


class OwnEvaluator(Evaluator):
    """The evaluator of a third party, whose verdicts are not always what they should be."""

    name, kind = "own", EVALUATOR

    def __init__(self, declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> None:
        self.declaration, self.judges = declaration, tuple(judge)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Ask the judges, and reply with a verdict, or with what is none."""
        passed = "good" in turn.task
        for number, judge in enumerate(self.judges):
            asked = Turn(f"{JUDGED}\n- asked: Is it good?", purpose="judge", aside=True)
            passed = passed and not isinstance(await ctx.ask(judge, asked, key=f"own-{number}"), Failure)
        results = [{"id": one.id, "passed": passed, "score": float(passed)} for one in self.declaration.rubric]
        outcome = ODD[crc32(turn.task.encode()) % len(ODD)] or ("pass" if passed else "revise")
        return Reply.of(self.name, "", data={"outcome": outcome, "criteria": results if outcome != "nothing" else []})


ODD = ("", "", "", "pass", "accepted", "not_reviewed", "auto_pass_with_warning", "nothing")
"""What an evaluator of others says of work, whatever it found; empty is what it found."""


def joined(turn: Turn) -> str:
    """Answer as the member who joins."""
    return "good work of new"
