"""A soak: several real command-line processes at a time on one journal, disturbed at random, and the laws checked."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import anyio

from teamwright.runtime.engine import Engine
from teamwright.teams.team_loader import load_team
from teamwright.values.people import Answer
from tests.soak.episode import TASK, Episode, Place
from tests.soak.laws import comparable
from tests.soak.report import Report
from tests.soak.server import CountingServer
from tests.soak.teams import TEAMS, SoakTeam

Tell = Callable[[str], None]


def run_soak(
    *,
    seconds: float,
    seed: int,
    folder: Path,
    width: int = 3,
    teams: Sequence[SoakTeam] = TEAMS,
    tell: Tell = lambda _: None,
) -> Report:
    """Soak these teams for so long; the journal and the logs lie in `folder`, which must be new."""
    report, server = Report(seed), CountingServer(seed)
    for name in ("home", "logs", "teams", "tmp"):
        (folder / name).mkdir(parents=True)
    start = time.monotonic()
    try:
        written = {team.name: team.write(folder / "teams", server.url) for team in teams}
        environment = _environment(folder, server)
        references = _references(teams, written, server, environment)
        place = Place(folder, server, report, written, references, environment)
        _play_all(place, teams, time.monotonic() + seconds, width, tell)
        _check_leftovers(place)
    finally:
        server.close()
    report.seconds = time.monotonic() - start
    return report


def _environment(folder: Path, server: CountingServer) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEAMWRIGHT_")}
    return {
        **{name: value for name, value in kept.items() if not name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))},
        "TEAMWRIGHT_HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "NO_PROXY": "127.0.0.1,localhost",
        "SOAK_URL": server.url,
    }


def _references(
    teams: Sequence[SoakTeam], written: dict[str, Path], server: CountingServer, environment: dict[str, str]
) -> dict[str, Any]:
    """The result of an undisturbed run of each team, run here in memory."""
    import sys

    key = "soak-reference"
    server.fixed.add(key)
    os.environ.update(SOAK_URL=environment["SOAK_URL"], SOAK_KEY=key)
    sys.path.append(str(next(iter(written.values()))))
    return {team.name: comparable(anyio.run(_undisturbed, written[team.name]), team) for team in teams}


async def _undisturbed(folder: Path) -> Any:
    async with Engine("memory") as engine:
        team = load_team(folder, team=folder.name, models=engine.models)
        result = await engine.run(team, TASK, run_id="reference")
        while result.status == "paused":
            for key in (await engine.runs.history("reference")).questions():
                await engine.runs.answer("reference", key, Answer.approve())
            result = await engine.resume("reference", team=team)
        return result


def _play_all(place: Place, teams: Sequence[SoakTeam], end: float, width: int, tell: Tell) -> None:
    """Run concurrent episodes until the time is over; teams take turns, in an order from the seed."""
    seed = place.report.seed
    order = list(teams)
    Random(seed).shuffle(order)
    numbers = iter(range(1_000_000))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def player() -> None:
        while time.monotonic() < end and not errors:
            with lock:
                number = next(numbers)
            team = order[number % len(order)]
            episode = Episode(place, team, number, Random(f"{seed}/{number}"), end)
            try:
                episode.play()
            except BaseException as error:
                errors.append(error)
                raise
            tell(f"{number:>5} {team.name:<14} {place.report.runs:>5} runs, {len(place.report.breaches)} broken laws")

    players = [threading.Thread(target=player) for _ in range(width)]
    for one in players:
        one.start()
    for one in players:
        one.join()
    if errors:
        raise errors[0]


def _check_leftovers(place: Place) -> None:
    """Nothing of the processes is left in the folder for temporary files."""
    left = sorted(one.name for one in (place.folder / "tmp").iterdir())
    if left:
        place.report.breach("-", f"temporary files were left behind: {', '.join(left[:10])}")
