"""Records the samples of page events that the tests and pictures of the page use, from examples of the repository."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from teamwright import Engine, Limits, load_team
from teamwright.events import TeamStepAssigned
from teamwright.server.page.page_events import encode
from teamwright.server.page.projection import read_page_events

FIXTURES = Path("web") / "src" / "fixtures"
ROLL_OUT = {
    "id": "roll_out",
    "name": "How it reaches the inspectors",
    "agent": "advocate",
    "needs": ["fixes"],
    "task": "Write the roll-out in three lines.",
}
Play = Callable[[Engine, Path, str], Coroutine[Any, Any, None]]


async def record_samples(root: Path) -> None:
    """Run the examples, and write each as one file with its result and its page events."""
    (root / FIXTURES).mkdir(parents=True, exist_ok=True)
    for name, play in SAMPLES.items():
        async with Engine("memory") as engine:
            await play(engine, root / "examples" / name, name)
            result = await engine.runs.result(name)
            events = json.loads(encode(await read_page_events(engine.journal, name)))
        sample = {"run": result.to_json(), "events": events}
        file = root / FIXTURES / f"{name}.json"
        file.write_text(json.dumps(sample, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


async def _play(engine: Engine, folder: Path, name: str) -> None:
    task = (folder / "task.txt").read_text(encoding="utf-8")
    await engine.run(load_team(folder), task, run_id=name)


async def _play_steered(engine: Engine, folder: Path, name: str) -> None:
    """Steer the review while it runs, as its script does."""
    task = (folder / "task.txt").read_text(encoding="utf-8")
    handle = await engine.start(load_team(folder), task, run_id=name)
    async for event in engine.runs.follow(name):
        match getattr(event, "fact", None):
            case TeamStepAssigned(step="findings", attempt=1):
                await engine.runs.say(name, "The data of our customers stays in the EU.", by="ann")
                plan: Any = (await engine.runs.history(name)).plan()
                plan["steps"].append(ROLL_OUT)
                await engine.runs.edit_plan(name, plan, by="ann")
                await engine.runs.raise_budget(name, Limits(tokens=500_000), by="ann")
            case _:
                pass
    await handle.result()


SAMPLES: dict[str, Play] = {
    "expert_review": _play_steered,
    "selector": _play,
    "budget": _play,
    "dag": _play,
    "approvals": _play,
    "a2a_lite": _play,
}
