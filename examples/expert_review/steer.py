"""Steers the review while it runs: a message to the team, and a step that a person adds to the plan.

From another terminal, the same is  teamwright runs steer review say "…"  and  teamwright runs steer review plan.
"""

import asyncio
from pathlib import Path
from typing import Any

from teamwright import Engine, load_team
from teamwright.events import AgentFailed, RunApplied, TeamPlanChanged, TeamStepAssigned

FOLDER = Path(__file__).parent
ROLL_OUT = {
    "id": "roll_out",
    "name": "How it reaches the inspectors",
    "agent": "advocate",
    "needs": ["fixes"],
    "task": "Write the roll-out in three lines.",
}


async def main() -> None:
    """Run the review, tell the team where its data may be, and let it plan the roll-out too."""
    async with Engine("memory") as engine:
        team, task = load_team(FOLDER), (FOLDER / "task.txt").read_text()
        handle = await engine.start(team, task, run_id="review")
        async for event in engine.runs.follow("review"):
            match getattr(event, "fact", None):
                case TeamStepAssigned(step="findings"):
                    await engine.runs.say("review", "The data of our customers stays in the EU.", by="ann")
                    plan: Any = (await engine.runs.history("review")).plan()
                    plan["steps"].append(ROLL_OUT)
                    await engine.runs.edit_plan("review", plan, by="ann")
                case RunApplied(intervention=done):
                    print(f"in effect: {done.kind}")
                case TeamPlanChanged(plan_version=version, difference=lines) if version > 1:
                    print(f"plan, version {version}: {'; '.join(lines)}")
                case AgentFailed(member=member, message=reason):
                    print(f"{member} failed: {reason}")
                case _:
                    pass
        result = await handle.result()
        print(f"{result.status}: {(result.output or '').splitlines()[-1]}")


asyncio.run(main())
