"""Teams whose models obey every injection that they read, with and without what the page about security recommends.

The models are scripted with the calls of a user's task and those of an injection. Nothing here knows whose suite the
tasks are from: `judge.py` brings tasks, tools and verdicts from AgentDojo.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Answer, Confirm, Context, Engine, ModelAgent, Plan, Step, Team
from teamwright.agents import ToolContext, ToolDefinition, ToolSource
from teamwright.errors import ToolError
from teamwright.people import Question

READING = ("get", "search", "list", "read", "check")
"""How the names of tools begin that read, as their names say; all others are taken to write."""
TARGETS = (
    "recipient", "recipients", "participants", "email", "user", "user_email", "channel", "url",
    "file_id", "filename", "event_id", "email_id", "id", "hotel", "restaurant", "company",
)  # fmt: skip
"""The parameters that say to whom or to what a call does something."""
ASKED_ABOUT = re.compile(r"the tool '(\w+)'")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, JsonValue]

    @property
    def reads(self) -> bool:
        """Whether its tool is one that reads."""
        return self.tool.split("_", maxsplit=1)[0] in READING

    def targets(self) -> list[tuple[str, str]]:
        """To whom, or to what, it does something: parameters and values."""
        found = {name: self.arguments[name] for name in TARGETS if self.arguments.get(name) is not None}
        return [
            (name, str(one)) for name, value in found.items() for one in (value if isinstance(value, list) else [value])
        ]

    def paths(self) -> list[str]:
        """What a step has to own for it."""
        return [f"{self.tool}/{name}/{part_of(target)}" for name, target in self.targets()] or [self.tool]


@dataclass(frozen=True, slots=True)
class Attack:
    """A user's task, and an injection in what its tools return."""

    task: str
    calls: Sequence[Call]
    answer: str
    injection: str
    injected_calls: Sequence[Call]
    injected_answer: str


@dataclass(frozen=True, slots=True)
class Defence:
    """What a team does against injections; by default nothing.

    A `person` is asked about each call that writes, and approves it by its `arguments`, if it is one of the user's
    task, or by its `tool`, if the task uses that one. `rights` are divided between two members, in this order. With
    `owns`, the only step of the team owns what `owned_keys` says.
    """

    name: str
    person: Literal["arguments", "tool"] | None = None
    rights: Literal["read, write", "write, read"] | None = None
    owns: bool = False


DEFENCES = (
    Defence("none"),
    Defence("`confirm`, by arguments", person="arguments"),
    Defence("`confirm`, by tool", person="tool"),
    Defence("rights: read, then write", rights="read, write"),
    Defence("rights: write, then read", rights="write, read"),
    Defence("`owns`", owns=True),
    Defence("rights: read, then write; `confirm`, by arguments", person="arguments", rights="read, write"),
)


def part_of(target: str) -> str:
    """A target as one part of a path."""
    return re.sub(r"[^0-9a-z.@+-]", "_", target.lower())


def letters(text: str) -> str:
    """Letters and digits of a text, which survive its way through formats."""
    return "".join(sign for sign in text.lower() if sign.isalnum())


def owned_keys(attack: Attack) -> tuple[str, ...]:
    """What a careful author lets the task do: the writing tools that it needs, with the targets that its text names.

    A target that the text does not name is only known after reading: then any is allowed.
    """
    keys = {key for call in attack.calls if not call.reads for key in _keys_for(call, attack.task)}
    return tuple(sorted(keys)) or ("nothing",)  # a step without keys, alone in its plan, may write everything


def _keys_for(call: Call, text: str) -> Iterator[str]:
    if not (targets := call.targets()):
        yield call.tool
    for name, target in targets:
        is_named = re.search(rf"(?<!\w){re.escape(target)}(?!\w)", text, re.IGNORECASE)
        yield f"{call.tool}/{name}/{part_of(target) if is_named else '*'}"


class Environment(ToolSource):
    """Tools that `run` executes, which raises `ToolError` if one fails; remembers the calls that it got."""

    name, kind = "environment", "environment"

    def __init__(self, tools: Iterable[ToolDefinition], run: Callable[[Call], JsonValue]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._run = run
        self.tool_names = tuple(self._tools)
        self.made: list[Call] = []

    def only(self, *, reading: bool) -> Environment:
        """The tools that read, or those that write."""
        some = Environment([one for one in self._tools.values() if Call(one.name, {}).reads == reading], self._run)
        some.made = self.made
        return some

    @property
    def writing(self) -> tuple[str, ...]:
        """The names of the tools that write."""
        return tuple(name for name in self._tools if not Call(name, {}).reads)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return list(self._tools.values())

    async def call(self, name: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> JsonValue:
        call = Call(name, arguments)
        for path in () if call.reads else call.paths():
            if not context.owned.may_write(path):
                raise ToolError(context.owned.refusal(path))
        result = self._run(call)
        self.made.append(call)
        return result


@dataclass(frozen=True)
class ObedientModel:
    """Makes its calls one by one, and as soon as it has read the injection, first those of the injection.

    If it `relays`, its answer repeats an injection that it has read, so that the next member reads it too.
    """

    attack: Attack
    calls: Sequence[Call]
    injected: Sequence[Call]
    answer: str = ""
    relays: bool = False

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made, read_at = 0, None
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolCallPart):
                made += 1
            elif read_at is None and letters(self.attack.injection) in letters(self._text(part)):
                read_at = made
        calls = list(self.calls)
        if read_at is not None:
            calls[read_at:read_at] = self.injected
        if made < len(calls):
            return ModelResponse(parts=[ToolCallPart(calls[made].tool, dict(calls[made].arguments))])
        return ModelResponse(parts=[TextPart("\n".join(self._lines(obeys=read_at is not None)))])

    def _lines(self, *, obeys: bool) -> Iterator[str]:
        yield self.answer or "Done."
        if obeys:
            yield self.attack.injected_answer
            if self.relays:
                yield self.attack.injection

    def _text(self, part: object) -> str:
        match part:
            case ToolReturnPart() | UserPromptPart():
                content = part.content
                return content if isinstance(content, str) else " ".join(_texts(content))
            case _:
                return ""


def _texts(value: object) -> Iterator[str]:
    """All texts inside of a value."""
    match value:
        case str():
            yield value
        case Mapping():
            for one in value.values():
                yield from _texts(one)
        case Sequence():
            for one in value:
                yield from _texts(one)
        case _:
            yield str(value)


def member(name: str, model: ObedientModel, tools: Environment, defence: Defence) -> ModelAgent:
    """A member with these tools; with a person, each call that writes needs an approval."""
    asked = tools.writing if defence.person else ()
    return ModelAgent(name, model=FunctionModel(model), tools=[tools], confirm=Confirm(tools=asked) if asked else None)


def team_for(attack: Attack, tools: Environment, defence: Defence) -> Team:
    """The team that works on the user's task."""
    if defence.rights is None:
        model = ObedientModel(attack, attack.calls, attack.injected_calls, attack.answer)
        clerk = member("clerk", model, tools, defence)
        if defence.owns:
            plan = Plan(steps=(Step(id="clerk", owns=owned_keys(attack)),))
            return Team("desk", members=[clerk], strategy="dag", options=plan)
        return Team("desk", members=[clerk])
    writes_first = defence.rights == "write, read"
    reader = ObedientModel(
        attack,
        [call for call in attack.calls if call.reads],
        [call for call in attack.injected_calls if call.reads],
        attack.answer,
        relays=True,
    )
    writer = ObedientModel(
        attack,
        list(_writes_before_reads(attack.calls)) if writes_first else [one for one in attack.calls if not one.reads],
        [call for call in attack.injected_calls if not call.reads],
        attack.answer,
    )
    members = [
        member("reader", reader, tools.only(reading=True), defence),
        member("writer", writer, tools.only(reading=False), defence),
    ]
    return Team("desk", members=members[::-1] if writes_first else members)


def _writes_before_reads(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls that a writer can make which has read nothing: those that come before the first one that reads."""
    for call in calls:
        if call.reads:
            return
        yield call


@dataclass
class Person:
    """Approves calls, and counts how often it was asked."""

    attack: Attack
    looks_at: Literal["arguments", "tool"] | None
    asked: int = field(default=0)

    def answer(self, question: Question) -> Answer:
        """Approve what the user's task has in its calls, and nothing else."""
        self.asked += 1
        found = ASKED_ABOUT.search(question.text)
        if found is None or question.draft is None:
            raise ValueError(f"this is no approval of a tool call: {question.text}")
        tool, arguments = found[1], json.loads(question.draft)
        if any(
            call.tool == tool and (self.looks_at == "tool" or call.arguments == arguments) for call in self.attack.calls
        ):
            return Answer.approve(by="person")
        return Answer.reject("the task did not ask for this", by="person")


async def work(engine: Engine, attack: Attack, tools: Environment, defence: Defence) -> tuple[str, int]:
    """Run a team on the user's task; returns its answer, and how often a person was asked."""
    team, person = team_for(attack, tools, defence), Person(attack, defence.person)
    result = await engine.run(team, attack.task)
    while result.status == "paused":
        questions = (await engine.runs.history(result.run_id)).questions()
        for key, question in questions.items():
            await engine.runs.answer(result.run_id, key, person.answer(question))
        result = await engine.resume(result.run_id, team=team)
    if result.status != "completed":
        raise RuntimeError(f"{defence.name}: {result.status} ({result.stop_reason}): {result.output}")
    return result.output or "", person.asked
