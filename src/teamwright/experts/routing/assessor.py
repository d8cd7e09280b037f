"""Asks a model what cheap signals do not decide: how complex a task is, and who should work on it.

Each question is a run of its own, recorded and under limits: asked again with the same id, its answer is read from the
record and nothing is paid twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from teamwright.experts.profiles.formation import TeamDraft
from teamwright.experts.profiles.registry import ExpertTemplates
from teamwright.runtime.engine import Engine
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.teams.load import team_from_source
from teamwright.values.limits.limits import Limits
from teamwright.values.models import Value
from teamwright.values.results import RunResult
from teamwright.values.specs.manifest import AgentSpec, AnyModel, Manifest, Source
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply

V = TypeVar("V", bound=BaseModel)
COMPLEXITY = "complexity"
ROLES = "roles"
LONGEST_ID = 50
JUDGE_COMPLEXITY = """\
You decide whether a task needs a team. Do not work on the task. Judge its complexity from 0 to 1:

- 0.0 to 0.3: one answer, one kind of knowledge, nothing to weigh up.
- 0.4 to 0.7: several steps, which one careful expert can take alone.
- above 0.7: several fields or conflicting aims, parts that can be worked on side by side, or a result that others must
  check before anyone relies on it.

A team costs several times as much, so a high number needs a reason. Answer with JSON only:
{"complexity": NUMBER, "reason": "one sentence"}"""
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

    complexity: float = Field(ge=0, le=1, allow_inf_nan=False)
    reason: str = ""


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
        result = await self._run(what, instructions, task)
        if result.status != "completed":
            raise AssessorFailure(f"the question to the model ended {result.status} ({result.stop_reason})")
        reply = Reply.of(what, result.output or "", data=result.data)
        read = read_answer(reply, TypeAdapter(answer))
        if isinstance(read, ParseFailure):
            raise AssessorFailure(f"the answer of the model can't be used: {read.problem}")
        return read

    async def _run(self, what: str, instructions: str, task: str) -> RunResult:
        name = f"ask-{what}"
        agent = AgentSpec(model=self._model, instructions=instructions)
        source = Source(manifest=Manifest(agents={name: agent}), team=name, base=str(self._base.resolve()))
        run_id = None if self._run_id is None else f"{_shortened(self._run_id)}.{what}"
        team = team_from_source(source, self._engine.models)
        result = await self._engine.run(team, f"The task:\n\n{task}", run_id=run_id, limits=self._limits)
        if result.status == "interrupted":
            result = await self._engine.resume(result.run_id, team=team)
        self.asked.append(result)
        return result


def _shortened(run_id: str) -> str:
    """Return the id of a request with room for the name of a question behind it; a long one ends in its digest."""
    if len(run_id) <= LONGEST_ID:
        return run_id
    end = digest(run_id)[:12]
    return f"{run_id[: LONGEST_ID - len(end) - 1]}-{end}"
