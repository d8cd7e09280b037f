"""What is checked and known of a team before it runs: its configuration, its attachments, and the secrets to mask.

Nothing here sends a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from teamwright.agents.attachments import Attachment, why_not_taken
from teamwright.agents.clients.models import Models
from teamwright.agents.contract.agent import Agent, Preflight
from teamwright.agents.model.agent import ModelAgent
from teamwright.documents.nodes import Place
from teamwright.errors import ManifestError, Problem, UsageError
from teamwright.teams.manifests.secrets import secrets_in
from teamwright.teams.team import Team
from teamwright.values.specs.manifest import model_key

MOST_NAMED = 8


async def check_ready(team: Team, models: Models, places: Mapping[str, Place] | None = None) -> None:
    """Raise `ManifestError` with all configuration problems: unknown models, missing extras and keys."""
    problems: dict[str, list[str]] = {}
    for agent in _agents_and_fallbacks(team):
        for text in await agent.preflight(models) if isinstance(agent, Preflight) else ():
            names = problems.setdefault(text, [])
            if agent.name not in names:
                names.append(agent.name)
    if problems:
        raise ManifestError([_problem(text, names, places or {}) for text, names in problems.items()])


def check_declared(agents: Iterable[Agent]) -> None:
    """Raise `ManifestError` with all names of models that are none, without opening a client."""
    models = [agent for agent in agents if isinstance(agent, ModelAgent)]
    problems = [Problem(f"the agent {one.name!r}: {text}") for one in models for text in one.undeclared_models()]
    if problems:
        raise ManifestError(problems)


def check_attachments(team: Team, files: Sequence[Attachment]) -> None:
    """Raise `UsageError` if a model of the team is known not to take one of the files of a task.

    With `share: output` only some members see the task, so a model refuses its file when it gets one.
    """
    if team.settings.share == "output":
        return
    for agent in _agents_and_fallbacks(team):
        if not isinstance(agent, ModelAgent):
            continue
        model = model_key(agent.model)
        for file in files:
            if (reason := why_not_taken(file.media_type, model)) is not None:
                raise UsageError(
                    f"The file {file.name!r} ({file.media_type}) can't be attached: the model {model!r} of"
                    f" {agent.name!r} does not take it, since {reason}."
                )


def known_secrets(team: Team) -> frozenset[str]:
    """Return the secrets of a team, which a run masks before it records or delivers anything."""
    if team.declared is not None:
        return team.secrets
    return secrets_in(team.roster.agents, team.roster.settled, team.declaration())


def _agents_and_fallbacks(team: Team) -> Iterator[Agent]:
    """Yield the agents of a team, and their fallbacks of the same name."""
    for agent in team.everyone():
        yield agent
        other = agent.policy.fallback
        if other is not None and other.name == agent.name:
            yield other


def _problem(text: str, names: list[str], places: Mapping[str, Place]) -> Problem:
    """Combine a problem that several agents have into one, at the position of the first."""
    place = places.get(names[0], Place(""))
    who = ", ".join(map(repr, names[:MOST_NAMED])) + (" …" if len(names) > MOST_NAMED else "")
    return Problem(f"{'agent' if len(names) == 1 else 'agents'} {who}: {text}", place.file, place.line, place.column)
