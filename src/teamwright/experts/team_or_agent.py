"""Routes a task to one agent or to a team of experts: `@team` before it, signals of its text, or a model's answer.

The signals count the structure of the text, never its words: length, clauses, parts, questions, files and tools. They
are rough, so a middle score decides nothing, and a model is asked. Each question is a run of its own, recorded, within
the limits of the request: asked again with the same id, its answer is read and nothing is paid twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar
from unicodedata import east_asian_width

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from teamwright.errors import UsageError
from teamwright.experts.formation import (
    ITEM,
    MOST_ROLES,
    READ,
    FormedStrategy,
    TeamDraft,
    draft_for,
    draft_named,
    form_team,
    plain_structure,
)
from teamwright.experts.templates import ExpertTemplates
from teamwright.runtime.engine import Engine
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.teams.team_loader import team_from_source
from teamwright.values.limits import Limits
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.members import check_expert_name
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import Value, check_text

PREFIX = re.compile(r"\s*@team(?P<names>[:\uff1a][^\s,\uff0c]*(?:[,\uff0c]\s*[^\s,\uff0c]*)*)?(?=\s|$)", re.IGNORECASE)
COMMA = re.compile("[,\uff0c]")
"""Colon and comma may be those of Chinese and Japanese keyboards."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A task, whether a team was asked for, and the experts that were named."""

    task: str
    wants_team: bool = False
    names: tuple[str, ...] = ()


def parse_request(text: str) -> AskRequest:
    """Read a request; raises `UsageError` for a blank task and for unknown names."""
    check_text("text", text)
    found = PREFIX.match(text)
    task = (text[found.end() :] if found else text).strip()
    if not task:
        raise UsageError('There is no task: write  teamwright ask "@team What is to be done"')
    if found is None:
        return AskRequest(task)
    return AskRequest(task, wants_team=True, names=_names(found["names"]))


def _names(written: str | None) -> tuple[str, ...]:
    if written is None or len(written) == 1:
        return ()
    names = tuple(dict.fromkeys(name.strip() for name in COMMA.split(written[1:])))
    for name in names:
        try:
            check_expert_name(name)
        except ValueError as error:
            raise UsageError(f"{error}. Write  @team:analyst,strategist  and then the task.") from None
    if len(names) > MOST_ROLES:
        raise UsageError(f"A team has at most {MOST_ROLES} experts, and {len(names)} are named.")
    return names


ENOUGH_FOR_ONE = 0.35
"""Up to this score one agent is enough."""
TEAM_ABOVE = 0.7
"""Strictly above this score a team is suggested."""

MARKS = re.compile("[,;.!?]+(?![A-Za-z0-9])|[、。،؛؟\u06d4।॥\u0589\u055e፣፤።፧၊။។]+")
"""Ends of sentences and clauses, in many scripts; the dots of 3.14 and example.org end nothing."""
QUESTIONS = re.compile("[?؟⸮\u055e፧‽]+")
REFERENCE = re.compile(
    r"https?://[^\s、。,)]++|`[^`\n]++`|```|(?<![A-Za-z0-9_./-])(?:\.{0,2}/)?+(?:[\w.-]++/)*+"
    r"[\w-]++(?:\.[\w-]++)*?\.[a-z][a-z0-9]{1,7}(?![./]?[A-Za-z0-9_])"
)
"""Addresses, names of tools or other code, and files."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason for a score: what was counted, how much of it, and what it adds."""

    name: str
    count: int
    adds: float

    def __str__(self) -> str:
        return f"{self.name} {self.count} ({self.adds:+.2f})"


@dataclass(frozen=True, slots=True)
class Complexity:
    """The complexity of a task from 0 to 1, with the signals that it is the sum of."""

    score: float
    signals: tuple[Signal, ...] = ()

    @property
    def is_enough_for_one(self) -> bool:
        """Whether one agent is enough for certain."""
        return self.score <= ENOUGH_FOR_ONE

    @property
    def suggests_team(self) -> bool:
        return self.score > TEAM_ABOVE

    def __str__(self) -> str:
        reasons = ", ".join(map(str, self.signals))
        return f"{self.score:.2f}" + (f" ({reasons})" if reasons else "")


def estimate_complexity(task: str) -> Complexity:
    """Estimate the complexity of a task from its structure, which says the same in every language.

    Length and clauses alone never suggest a team: a long text may be one to translate, so a model is asked.
    """
    signals = tuple(signal for signal in _signals(task) if signal.adds)
    return Complexity(round(min(1.0, sum(one.adds for one in signals)), 4), signals)


def _signals(task: str) -> Iterator[Signal]:
    read = task[:READ]
    text = plain_structure(task)
    length = len(task) + 2 * sum(map(_is_wide, read))
    clauses, questions = len(MARKS.findall(text)), len(QUESTIONS.findall(text))
    items = len(ITEM.findall(text))
    references = len(set(REFERENCE.findall(text)))
    yield Signal("length", length, _bounded(1 / 400, length, 0.4))
    yield Signal("clauses", clauses, _bounded(0.08, clauses - 1, 0.3))
    yield Signal("parts", items, _bounded(0.08, items if items > 1 else 0, 0.4))
    yield Signal("questions", questions, _bounded(0.12, questions - 1, 0.36))
    yield Signal("files and tools", references, _bounded(0.1, references, 0.3))


def _bounded(each: float, count: int, most: float) -> float:
    return round(min(most, each * max(0, count)), 4)


def _is_wide(character: str) -> bool:
    """Whether a character is as wide as two, as in Chinese, Japanese and Korean, where it says as much as three."""
    return east_asian_width(character) in "WF"


V = TypeVar("V", bound=BaseModel)
COMPLEXITY = "complexity"
ROLES = "roles"
LONGEST_ID = 50
SHOWN = 6_000
"""A question shows this many characters of a task: the beginning says what is to be done."""
SHARE = 4
"""A question may use this part of what the limits leave; the rest is for the answer."""
MOST_OUTPUT = 2_000
JUDGE_COMPLEXITY = """\
You decide who takes a task. Do not work on it. Say in one sentence what it asks for, then judge its complexity:

- 0.1: one answer, one kind of knowledge: a fact, a translation, a short text.
- 0.5: several steps that one careful person takes alone.
- 0.9: experts of different fields are needed, or others must check the result before anyone relies on it.

A team costs several times as much, so a high number needs a reason. Answer with JSON only:
{"reason": "one sentence", "complexity": NUMBER}"""
NAME_ROLES = """\
You put together a small team for a task. Do not work on the task. These templates exist:

TEMPLATES

Choose two to five roles that the task really needs, the lead first. Take a template wherever one fits. For a role that
no template covers, leave "template" out and write "description" and "instructions": how it works, what it delivers,
what it refuses. Give each role its own part of the task. Answer with JSON only:
{"roles": [{"name": NAME, "template": NAME, "description": TEXT, "instructions": TEXT, "capabilities": [TEXT],
"task": TEXT, "reason": TEXT}]}
A NAME has letters, digits, - and _."""


class ComplexityAnswer(Value):
    """The answer of a model about the complexity of a task; fields that it adds are ignored."""

    model_config = ConfigDict(extra="ignore")

    reason: str = Field(default="", max_length=500)
    complexity: float = Field(ge=0, le=1, allow_inf_nan=False)


class AssessorFailure(Exception):
    """The model gave no usable answer; the text says why, in words that fit into a sentence."""


class Assessor:
    """Asks questions about a task, each as a run of its own."""

    def __init__(
        self, engine: Engine, model: AnyModel, base: Path, *, run_id: str | None, limits: Limits | None
    ) -> None:
        self._engine, self._model, self._base = engine, model, base
        self._run_id, self._limits = run_id, limits
        self.asked: list[RunResult] = []
        """The runs that were made, for their usage."""

    async def complexity(self, task: str) -> ComplexityAnswer:
        """Return the complexity of a task; raises `AssessorFailure`."""
        return await self._ask(COMPLEXITY, JUDGE_COMPLEXITY, task, ComplexityAnswer)

    async def team(self, task: str, templates: ExpertTemplates) -> TeamDraft:
        """Return the draft of a team for a task; raises `AssessorFailure`."""
        listed = "\n".join(f"- {one.name}: {one.description}" for one in templates.list())
        return await self._ask(ROLES, NAME_ROLES.replace("TEMPLATES", listed), task, TeamDraft)

    async def _ask(self, what: str, instructions: str, task: str, answer: type[V]) -> V:
        result = await self._run(what, instructions, task, answer.model_json_schema())
        if result.status != "completed":
            why = f": {result.failure.message}" if result.failure is not None else ""
            raise AssessorFailure(f"the question to the model ended {result.status} ({result.stop_reason}){why}")
        reply = Reply.of(what, result.output or "", data=result.data)
        read = read_answer(reply, TypeAdapter(answer))
        if isinstance(read, ParseFailure):
            raise AssessorFailure(f"the answer of the model can't be used: {read.problem}")
        return read

    async def _run(self, what: str, instructions: str, task: str, schema: dict[str, JsonValue]) -> RunResult:
        name = f"ask-{what}"
        agent = AgentSpec(
            model=self._model, instructions=instructions, output_schema=schema, max_tokens=MOST_OUTPUT, max_requests=2
        )
        source = Source(manifest=Manifest(agents={name: agent}), team=name, base=str(self._base.resolve()))
        run_id = None if self._run_id is None else f"{_shortened(self._run_id)}.{what}"
        team = team_from_source(source, self._engine.models)
        result = await self._engine.run(
            team, f"The task:\n\n{_excerpt(task)}", run_id=run_id, limits=_share(self._limits)
        )
        if result.status == "interrupted":
            result = await self._engine.resume(result.run_id, team=team)
        self.asked.append(result)
        return result


def _excerpt(task: str) -> str:
    left_out = len(task) - SHOWN
    return task if left_out <= 0 else f"{task[:SHOWN]}\n\n[{left_out} more characters are not shown]"


def _share(limits: Limits | None) -> Limits | None:
    """Return the limits of one question; raises `AssessorFailure` where they leave no call besides the answer's."""
    if limits is None:
        return None
    if limits.calls is not None and limits.calls < 2:
        raise AssessorFailure("the limit on calls leaves none to ask a model about it")
    tokens = None if limits.tokens is None else limits.tokens // SHARE
    usd = None if limits.usd is None else limits.usd / SHARE
    seconds = None if limits.seconds is None else limits.seconds / SHARE
    return limits.model_copy(update={"tokens": tokens, "usd": usd, "seconds": seconds, "calls": limits.calls and 1})


def _shortened(run_id: str) -> str:
    """Return the id of a request with room for the name of a question behind it; a long one ends in its digest."""
    if len(run_id) <= LONGEST_ID:
        return run_id
    end = digest(run_id)[:12]
    return f"{run_id[: LONGEST_ID - len(end) - 1]}-{end}"


DecidedBy = Literal["request", "signals", "model", "default"]


@dataclass(frozen=True, slots=True)
class Route:
    """One agent or a team, and why. `suggests_team` is only a suggestion: a team costs more, so the user decides."""

    mode: Literal["agent", "team"]
    decided_by: DecidedBy
    reason: str
    complexity: Complexity | None = None
    """The complexity by cheap signals, if it was estimated."""
    judged: float | None = None
    """The complexity that a model judged, if it was asked."""
    suggests_team: bool = False

    def to_json(self) -> dict[str, JsonValue]:
        known = self.complexity
        estimated = None if known is None else known.score
        return {
            "mode": self.mode,
            "decided_by": self.decided_by,
            "reason": self.reason,
            "complexity": estimated if self.judged is None else self.judged,
            "threshold": TEAM_ABOVE,
            "suggests_team": self.suggests_team,
            "signals": [{"name": one.name, "count": one.count, "adds": one.adds} for one in known.signals]
            if known
            else [],
        }


def route_by_signals(request: AskRequest, complexity: Complexity) -> Route | None:
    """Return the route that the request or cheap signals decide; `None` if a model has to be asked."""
    if request.wants_team:
        named = f" of {', '.join(request.names)}" if request.names else ""
        return Route("team", "request", f"a team{named} was asked for")
    if complexity.suggests_team:
        reason = f"a team is suggested: complexity {complexity} is above {TEAM_ABOVE:g}"
        return Route("agent", "signals", reason, complexity, suggests_team=True)
    if complexity.is_enough_for_one:
        reason = f"one agent is enough: complexity {complexity} is at most {ENOUGH_FOR_ONE:g}"
        return Route("agent", "signals", reason, complexity)
    return None


def route_by_score(score: float, why: str, signals: Complexity) -> Route:
    """Return the route for the complexity that a model has judged, where signals did not decide."""
    suggests = score > TEAM_ABOVE
    verdict, compared = ("a team is suggested", "above") if suggests else ("one agent is enough", "not above")
    reason = f"{verdict}: signals give {signals}, and a model judged {score:.2f}, which is {compared} {TEAM_ABOVE:g}"
    reason = f"{reason}; {why}" if why else reason
    return Route("agent", "model", reason, signals, judged=score, suggests_team=suggests)


def route_by_default(complexity: Complexity, problem: str) -> Route:
    """Return the route of a task that neither signals nor a model have decided: the cheaper one."""
    reason = f"one agent tries it: complexity {complexity} decides nothing, and {problem}"
    return Route("agent", "default", reason, complexity)


ASSISTANT = "assistant"
ASSISTANT_WORDS = """\
You answer one task alone. Answer it completely, in the form and length that it asks for, and begin with the answer.
Say what you assume and what you do not know; never invent facts, sources or figures."""


@dataclass(frozen=True, slots=True)
class DraftedTeam:
    """The draft of a team, how it came about, and warnings about that."""

    draft: TeamDraft
    how: Literal["named", "automatic"]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Router:
    """Routes tasks. `limits` are those of the whole request: the run gets what routing has left."""

    engine: Engine
    model: AnyModel
    base: Path = field(default_factory=Path.cwd)
    templates: ExpertTemplates = field(default_factory=ExpertTemplates)
    run_id: str | None = None
    limits: Limits | None = None
    strategy: FormedStrategy = "expert"
    _spent: Usage = NOTHING
    _seconds: float = 0.0

    async def route(self, request: AskRequest) -> Route:
        """Decide by the request, then by cheap signals, and ask a model only if these do not decide."""
        complexity = estimate_complexity(request.task)
        route = route_by_signals(request, complexity)
        if route is not None:
            return route
        assessor = self._assessor()
        try:
            judged = await assessor.complexity(request.task)
        except AssessorFailure as failure:
            return route_by_default(complexity, str(failure))
        finally:
            self._count(assessor)
        return route_by_score(judged.complexity, judged.reason, complexity)

    async def draft(self, request: AskRequest) -> DraftedTeam:
        """Draft a team: the named experts, else those that a model names, else those that the words of the task fit."""
        if request.names:
            return DraftedTeam(draft_named(request.names), "named")
        assessor = self._assessor()
        try:
            return DraftedTeam(await assessor.team(request.task, self.templates), "automatic")
        except AssessorFailure as failure:
            note = f"{failure}; the experts were chosen by the words of the task"
            return DraftedTeam(draft_for(request.task, self.templates), "automatic", (note,))
        finally:
            self._count(assessor)

    def team(self, drafted: DraftedTeam, task: str = "") -> Source:
        return form_team(
            drafted.draft,
            self.templates,
            model=self.model,
            base=self.base,
            how=drafted.how,
            notes=drafted.notes,
            strategy=self.strategy,
            task=task,
        )

    def agent(self) -> Source:
        agents = {ASSISTANT: AgentSpec(model=self.model, instructions=ASSISTANT_WORDS)}
        return Source(manifest=Manifest(agents=agents), team=ASSISTANT, base=str(self.base.resolve()))

    @property
    def limits_left(self) -> Limits | None:
        """The limits of the run: those of the request without what routing has spent."""
        limits, spent = self.limits, self._spent
        if limits is None:
            return None
        left = {
            "tokens": _less(limits.tokens, spent.total_tokens),
            "usd": _less(limits.usd, spent.usd),
            "calls": _less(limits.calls, spent.requests),
            "seconds": None if limits.seconds is None else max(0.001, limits.seconds - self._seconds),
        }
        return limits.model_copy(update=left)

    def _assessor(self) -> Assessor:
        return Assessor(self.engine, self.model, self.base, run_id=self.run_id, limits=self.limits_left)

    def _count(self, assessor: Assessor) -> None:
        for result in assessor.asked:
            self._spent += result.usage
            self._seconds += result.seconds


def _less(bound: float | None, spent: float | None) -> float | None:
    return bound if bound is None or not spent else max(type(bound)(0), bound - spent)
