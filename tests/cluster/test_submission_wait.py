"""A run goes on only on a worker that has what it needs; until there is one it waits, and says for what."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

from anyio import fail_after, sleep
from msgspec import structs

from teamwright.cluster.run_requirements import CodeFolder
from teamwright.cluster.submission import Lacks, PreparedTeam, prepare_team, record_wait
from teamwright.history.event_wording import note_text
from teamwright.journal.protocol import Batch
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.team_loader import source_of
from teamwright.values.events.run import RunQueued, RunStarted
from tests.kit.workers import PATIENCE, Cluster, eventually

MANIFEST = """
agents:
  voice: {function: "voices:shout"}
  echo: {model: scripted:replies.yaml}
teams: {pair: {members: [voice, echo]}}
"""


def make_code(folder: Path) -> Path:
    folder.mkdir()
    (folder / "voices.py").write_text("def shout(text: str) -> str:\n    return text.upper()\n")
    return folder


def make_team(cluster: Cluster, code: Path) -> PreparedTeam:
    folder = cluster.folder / "submitted"
    folder.mkdir()
    (folder / "team.yaml").write_text(MANIFEST)
    (folder / "replies.yaml").write_text("rules: [{reply: from a file}]\n")
    source = source_of(load([folder / "team.yaml"]))
    prepared = prepare_team(source, cluster.engine.models, code=CodeFolder(code))
    for file in (*folder.iterdir(), code / "voices.py"):
        file.unlink()
    return prepared


async def test_a_run_waits_for_a_worker_with_its_code_while_others_go_on(cluster: Cluster) -> None:
    prepared = make_team(cluster, make_code(cluster.folder / "here"))
    batch = await cluster.engine.enqueue(
        prepared.team, "hello", queue="default", run_id="special", files=prepared.files, code=prepared.code
    )
    assert await cluster.client.submit(batch)
    plain = cluster.start("--name", "plain", "--at-once", "1")
    await eventually(lambda: plain.has_said("leaves special to others"), "the worker lacks the code")
    await cluster.submit("one")
    await cluster.completed("one")
    (entry,) = await cluster.client.entries("parked")
    assert (entry.run_id, entry.waits) == ("special", True)
    assert entry.reason == f"waits for a worker with the code {prepared.code[:12]}"
    history = await cluster.engine.runs.history("special")
    assert [event.kind for event in history.events] == ["run.started", "run.queued", "run.queued"]
    assert (found := await cluster.engine.runs.find("special")) is not None
    assert found.status == "queued"
    assert sum("leaves special" in line for line in plain.lines) == 1, "nobody tries again in vain"
    able = cluster.start("--name", "able", "--code", str(make_code(cluster.folder / "there")))
    await cluster.completed("special")
    await eventually(lambda: able.has_said("finished special"), "it was driven where the code is")
    result = await cluster.engine.runs.result("special")
    assert [message.content for message in result.messages[-2:]] == ["HELLO", "from a file"]


async def test_a_wait_is_recorded_once_and_told_in_words(cluster: Cluster) -> None:
    first, *rest = (batch := await cluster.engine.enqueue(cluster.team, "x", queue="q", run_id="one")).events
    assert isinstance(first.fact, RunStarted)
    newer = structs.replace(first, fact=first.fact.changed(strategies={"sequential": 77}))
    assert await cluster.client.submit(Batch([newer, *rest], batch.bodies), "q")
    lacks = Lacks(("strategy 'sequential' version 77",))
    for _ in range(2):
        await record_wait(cluster.journal, "one", "q", lacks)
    events = await cluster.journal.read("one")
    assert len(events) == 3
    assert events[-1].fact == RunQueued(queue="q", waits_for=lacks.reasons)
    assert note_text(events[-1]) == "waits in the queue 'q' for a worker with strategy 'sequential' version 77"
    cancelled = await cluster.engine.runs.cancel("one")
    assert cancelled is not None
    await record_wait(cluster.journal, "one", "q", lacks)
    assert (await cluster.journal.read("one"))[-1].kind == "run.ended", "an ended run does not wait"


async def test_a_run_that_starts_later_is_not_recorded_to_wait_again(cluster: Cluster) -> None:
    batch = await cluster.engine.enqueue(cluster.team, "x", queue="q", run_id="one", starts=1796108400.0)
    assert await cluster.client.submit(batch, "q", delay=3600)
    await record_wait(cluster.journal, "one", "q")
    (_, queued) = await cluster.journal.read("one")
    assert note_text(queued) == "waits in the queue 'q' for a worker, from 2026-12-01 07:00 UTC on"


async def test_a_run_whose_worker_dies_waits_again_for_one_that_has_its_code(cluster: Cluster) -> None:
    code, hold = make_code(cluster.folder / "code"), cluster.hold
    batch = await cluster.engine.enqueue(
        cluster.team, "one", queue="default", run_id="one", code=CodeFolder(code).digest
    )
    assert await cluster.client.submit(batch)
    plain = cluster.start("--name", "plain")
    await eventually(lambda: plain.has_said("leaves one to others"), "the worker lacks the code")
    hold.touch()
    dying = cluster.start("--name", "dying", "--code", str(code))
    await eventually(lambda: len(cluster.effects) == 1, "the worker with the code begins")
    dying.send(SIGKILL)
    hold.unlink()
    able = cluster.start("--name", "able", "--code", str(code))
    await cluster.completed("one")
    await cluster.check("one")
    await eventually(lambda: able.has_said("finished one"), "it was driven where the code is")
    with fail_after(PATIENCE):
        while await cluster.client.entries("queued", "claimed", "parked"):  # noqa: ASYNC110 - the worker deletes it after the end
            await sleep(0.05)
