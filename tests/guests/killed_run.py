"""A run of guests and a member of ours in a child process, which is killed at one of its writes.

The coding agent asks the model server by itself and starts a process in a session of its own. The guests of the
installed frameworks call a recorded tool. All of them work at once, on files; the member of ours comes after them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import JsonValue

from teamwright import Engine, ModelAgent, Team
from teamwright.agents import AcpAgent, AcpCommand
from teamwright.agents.agent import Agent
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say
from teamwright.values.limits import Limits, MessageLimits
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.turns.results import FINAL
from tests.guests.members import INSTALLED, LOOKED_UP_FILE, MAKERS, call, named_model, results
from tests.kit.coders import git
from tests.kit.killing_journal import KillingJournal, When
from tests.paths import ROOT

RUN_ID, TASK = "r", "How is it?"
CODER, OURS = "coder", "ours"
PROMPTS = 2
"""How many requests the coding agent makes in its turn."""
CODER_TASK = f"child; touch made.py; model {PROMPTS}"
WORDS = 600
CEILING = 3100
"""What the turn of the coding agent may use, in tokens; it uses a little less."""
AGENT = ROOT / "tests" / "agents" / "plain_agent.py"
FRAMEWORKS = [name for name in INSTALLED if name != "crewai"]
"""Those whose guests live through a fork; CrewAI starts threads."""


def answer(request: ChatRequest) -> Say | CallTools:
    """Answer the coding agent; let others call the tool for a city of their name, and say what it says."""
    if found := results(request):
        return Say(text=f"{found[-1]}. {'word ' * WORDS}")
    return call(request.model) if request.tools else Say(text=f"It is {request.digest}. {'word ' * WORDS}")


def team_of(url: str, folder: Path, tokens: int | None = None) -> Team:
    """Return the team, whose members know each other by the names of their models."""
    variables = {"MODEL": url, "PIDS": str(folder / "pids")}
    command = (sys.executable, "-I", "-S", str(AGENT))
    coder = AcpAgent(
        CODER, AcpCommand(command=command, env=variables), limits=Limits(message=MessageLimits(tokens=CEILING))
    )
    guests: list[Agent] = [MAKERS[name](name, named_model(url, name)) for name in FRAMEWORKS]
    ours = ModelAgent(OURS, model=named_model(url, OURS))
    steps: list[dict[str, JsonValue]] = [{"id": one.name} for one in (coder, *guests, ours)]
    steps[0]["task"], steps[-1]["needs"] = CODER_TASK, [one.name for one in (coder, *guests)]
    return Team(
        "mixed",
        members=[coder, *guests, ours],
        strategy="dag",
        options={"steps": [*steps]},
        workspace=TeamWorkspace(git=str(folder / "repository")),
        limits=None if tokens is None else Limits(tokens=tokens),
    )


def make_repository(folder: Path) -> None:
    """Make the repository that the team works on."""
    (folder / "repository").mkdir()
    git(folder / "repository", "init", "--quiet")
    git(folder / "repository", "commit", "--quiet", "--allow-empty", "--message=one")


def warm_up(**_: Any) -> None:
    """Run the member of ours before the fork, and make the guests, so that a child imports nothing."""
    _run_once()


@cache
def _run_once() -> None:
    with ModelServer(answer) as server, TemporaryDirectory() as folder:
        team_of(server.url, Path(folder))
        ours = ModelAgent(OURS, model=named_model(server.url, OURS))
        asyncio.run(_drive(Team("ours", members=[ours]), KillingJournal(f"{folder}/journal.db")))


def drive(
    url: str, folder: str, journal: str, *, write: int | None = None, when: When = "before", tokens: int | None = None
) -> dict[str, Any]:
    """Start or resume the run in a journal, and return how it ended if the process lives until then."""
    os.environ.update({LOOKED_UP_FILE: f"{folder}/looked-up", "TEAMWRIGHT_HOME": f"{folder}/home"})
    return asyncio.run(_drive(team_of(url, Path(folder), tokens), KillingJournal(journal, write, when)))


async def _drive(team: Team, journal: KillingJournal) -> dict[str, Any]:
    async with Engine(journal) as engine:
        if await journal.find(RUN_ID) is None:
            result = await engine.run(team, TASK, run_id=RUN_ID)
        elif (result := await engine.runs.result(RUN_ID)).status not in FINAL:
            result = await engine.resume(RUN_ID, team=team)
    return {
        "status": result.status,
        "reason": result.stop_reason,
        "failure": result.failure and result.failure.message,
        "output": result.output,
        "tokens": result.usage.total_tokens,
        "writes": journal.writes,
    }
