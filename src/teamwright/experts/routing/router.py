"""Routes a task to one agent or to a team, and forms the team. What it learns from a model is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from teamwright.experts.profiles.formation import FormedStrategy, TeamDraft, draft_for, draft_named, form_team
from teamwright.experts.profiles.registry import ExpertTemplates
from teamwright.experts.routing.assessor import Assessor, AssessorFailure
from teamwright.experts.routing.request import AskRequest
from teamwright.experts.routing.route import Route, route_by_default, route_by_score, route_by_signals
from teamwright.experts.routing.signals import estimate_complexity
from teamwright.runtime.engine import Engine
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.specs.manifest import AgentSpec, AnyModel, Manifest, Source

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

    def team(self, drafted: DraftedTeam) -> Source:
        """Return the drafted team, ready for a run."""
        return form_team(
            drafted.draft,
            self.templates,
            model=self.model,
            base=self.base,
            how=drafted.how,
            notes=drafted.notes,
            strategy=self.strategy,
        )

    def agent(self) -> Source:
        """Return a single agent, ready for a run."""
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
        }
        return limits.model_copy(update=left)

    def _assessor(self) -> Assessor:
        return Assessor(self.engine, self.model, self.base, run_id=self.run_id, limits=self.limits_left)

    def _count(self, assessor: Assessor) -> None:
        for result in assessor.asked:
            self._spent += result.usage


def _less(bound: float | None, spent: float | None) -> float | None:
    return bound if bound is None or not spent else max(type(bound)(0), bound - spent)
