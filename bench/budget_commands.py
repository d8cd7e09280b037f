"""The teams of `bench.budget_served` as manifests, each run by a command: `teamwright run`, in a process of its own.

Members are plain model agents. Kinds whose members have to give structured answers are left out: a provider can't tell
from a prompt which of them is due.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import cast

from msgspec import convert
from pydantic import JsonValue

from bench.budget_provider import ECONOMY, INPUT, OUTPUT, Provider, names_of
from bench.budget_served import KINDS, TASK, Served, closing_members, layout_of, served_team
from teamwright import Limits, RunResult

COMMAND_KINDS = tuple(name for name in KINDS if name not in {"hierarchical", "splitter", "planner"})
CODES = (0, 3, 4)
"""The exit codes of runs that ended, be it with less than all of their work."""


def manifest_of(name: str, seed: int, provider: Provider) -> dict[str, JsonValue]:
    """Return the manifest of a team of this kind, without limits."""
    kind, (names, options, max_turns) = KINDS[name], layout_of(name, seed)
    model, economy = (
        {
            "url": provider.url,
            "name": model,
            "price": {"input": share * INPUT, "output": share * OUTPUT},
        }
        for model, share in zip(names_of(provider.tokenizer), (1.0, ECONOMY), strict=True)
    )
    members: list[JsonValue] = [*names]
    teams: dict[str, JsonValue] = {}
    if name == "nested":
        teams["inner"] = {"members": members[1:], "strategy": "round_robin", "max_turns": 2}
        members = [names[0], "inner", "m9"]
    team: dict[str, JsonValue] = {"members": members, "strategy": kind.strategy, "degradation": "auto"}
    if options:
        team[kind.strategy] = options
    if max_turns is not None:
        team["max_turns"] = max_turns
    agents: dict[str, JsonValue] = {
        one: {"instructions": f"You are {one}. {kind.instructions}"}
        for one in (*names, *(["m9"] if name == "nested" else []))
    }
    models: dict[str, JsonValue] = {"primary": cast("JsonValue", model), "economy": cast("JsonValue", economy)}
    return {"models": models, "agents": agents, "teams": {"team": team, **teams}}


async def run_command(name: str, seed: int, provider: Provider, journal: Path, limits: Limits | None = None) -> Served:
    """Run a team of this kind once, by a command."""
    provider.new_run(seed, KINDS[name].lengths)
    manifest = journal.with_suffix(".yaml")
    manifest.write_text(json.dumps(manifest_of(name, seed, provider)), encoding="utf-8")
    bounds = {} if limits is None else {"tokens": limits.tokens, "usd": limits.usd}
    given = [f"--max-{unit}={limit}" for unit, limit in bounds.items() if limit is not None]
    command = ("-m", "teamwright", "run", str(manifest), TASK, "--team=team", "--json", "--quiet", "--no-input", *given)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TEAMWRIGHT_JOURNAL": str(journal)},
    )
    out, _ = await process.communicate()
    assert process.returncode in CODES, (name, process.returncode, out)
    told = json.loads(out)
    told["usage"].pop("total_tokens")
    result, bill = convert(told, RunResult), provider.bill
    closing = closing_members(served_team(name, seed, provider, None, "none"))
    answered = bill.last_is_whole and bool(result.output)
    if closing and result.stop_reason not in ("done", "max_turns", "terminated"):
        answered = answered and bill.last_member in closing and result.failure is None
    return Served(result, bill.tokens, bill.usd, answered)
