"""Writes the pictures of the documentation to `docs/pictures/`: `python -m tools.pictures`.

They are made from the import contract and from the events of real runs, and a test draws them again and compares.
"""

from pathlib import Path

import anyio

from tools.pictures import (
    ask,
    expert_team,
    first_run,
    key_tree,
    layers,
    patches,
    replay,
    steering,
    step_states,
    strategies,
)

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "pictures"


async def draw_all(root: Path = ROOT) -> dict[str, str]:
    """Every picture by the name of its file."""
    return {
        "first_run.svg": first_run.draw(first_run.read_record(root)),
        "layers.svg": layers.draw(root),
        "ask.svg": ask.draw(await ask.record()),
        "key_tree.svg": key_tree.draw(await key_tree.record()),
        "patches.svg": patches.draw(await patches.record(root)),
        "replay.svg": replay.draw(await replay.record()),
        "step_states.svg": step_states.draw(),
        "expert_team.svg": expert_team.draw(await expert_team.record()),
        "steering.svg": steering.draw(await steering.record()),
        "strategies.svg": strategies.draw(root),
    }


def main() -> None:
    """Write what has changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, picture in anyio.run(draw_all).items():
        (FOLDER / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
