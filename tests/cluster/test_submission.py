import shutil
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from teamwright.cluster.permissions import Permissions
from teamwright.cluster.run_requirements import CodeFolder
from teamwright.cluster.submission import NOTHING, Lacks, TeamLoader, prepare_team, source_on_worker
from teamwright.errors import UsageError
from teamwright.journal.protocol import Batch, commit
from teamwright.runtime.engine import Engine
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.run_files import FileCache
from teamwright.teams.team import Team
from teamwright.teams.team_loader import build_new_member, source_of
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.tools import McpSpec

CODE = "def shout(text: str) -> str:\n    return text.upper() + '!'\n"


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    async with Engine("memory") as opened:
        yield opened


async def submit(engine: Engine, folder: Path, manifest: str, code: Path | None = None) -> None:
    """Record a run "one" of a manifest, and delete its folder: the worker is on another machine."""
    (folder / "team.yaml").write_text(manifest)
    source = source_of(load([folder / "team.yaml"]))
    prepared = prepare_team(source, engine.models, code=None if code is None else CodeFolder(code))
    batch = await engine.enqueue(
        prepared.team, "hello", queue="default", run_id="one", files=prepared.files, code=prepared.code
    )
    await commit(engine.journal, batch)
    shutil.rmtree(folder)


def loader(engine: Engine, tmp_path: Path, *code: Path, allow: Permissions = NOTHING) -> TeamLoader:
    cache = FileCache(tmp_path / "cache")
    folders = [CodeFolder(one) for one in code]
    return TeamLoader(engine.journal, engine.models, code=folders, allow=allow, cache=cache)


def allowed(
    *, modules: Sequence[str] = (), programs: Sequence[str] = (), env: Sequence[str] = (), roots: Sequence[Path] = ()
) -> Permissions:
    named = {"module": modules, "program": programs, "env": env}
    return Permissions.read([f"{kind}:{name}" for kind, names in named.items() for name in names], roots)


async def test_a_team_is_built_from_the_files_of_its_run(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "replies.yaml").write_text("rules: [{reply: 'from a file'}]\n")
    await submit(engine, folder, "agents: {one: {model: scripted:replies.yaml}}")
    team = await loader(engine, tmp_path).load("one")
    assert isinstance(team, Team)
    assert (await engine.resume("one", team=team)).output == "from a file"


async def test_any_process_resumes_and_forks_a_run_from_its_files(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "replies.yaml").write_text("rules: [{reply: 'from a file'}]\n")
    await submit(engine, folder, "agents: {one: {model: scripted:replies.yaml}}")
    assert (await engine.resume("one")).output == "from a file"
    assert (await engine.fork("one", at=1, task="again")).output == "from a file"


async def test_code_is_taken_from_the_folder_of_the_worker_with_the_same_digest(engine: Engine, tmp_path: Path) -> None:
    here, there, other = (tmp_path / name for name in ("here", "there", "other"))
    for place in (here, there, other):
        place.mkdir()
        (place / "voices.py").write_text(CODE)
        (place / "team.yaml").write_text("agents: {one: {function: 'voices:shout'}}")
    (other / "voices.py").write_text(CODE + "# changed\n")
    await submit(engine, here, "agents: {one: {function: 'voices:shout'}}", code=here)
    for lacking in (loader(engine, tmp_path), loader(engine, tmp_path, other)):
        found = await lacking.load("one")
        assert isinstance(found, Lacks)
        assert str(found) == f"waits for a worker with the code {CodeFolder(there).digest[:12]}"
    able = loader(engine, tmp_path, other, there)
    assert await able.lacks("one") is None
    team = await able.load("one")
    assert isinstance(team, Team)
    assert (await engine.resume("one", team=team)).output == "HELLO!"


async def test_a_file_of_a_run_is_never_imported_as_code(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "replies.yaml").write_text("rules: [{reply: x}]\n")
    (folder / "hostile.py").write_text(CODE)
    manifest = "agents: {one: {function: 'hostile:shout'}}"
    (folder / "team.yaml").write_text(manifest)
    prepared = prepare_team(source_of(load([folder / "team.yaml"])), engine.models, code=CodeFolder(folder))
    files = {"hostile.py": CODE.encode()}
    await commit(engine.journal, await engine.enqueue(prepared.team, "x", queue="q", run_id="one", files=files))
    found = await loader(engine, tmp_path, folder).load("one")
    assert str(found) == "waits for a worker with the Python module 'hostile' allowed (--allow module:hostile)"
    found = await loader(engine, tmp_path, folder, allow=allowed(modules=["hostile"])).load("one")
    assert str(found) == "waits for a worker with the Python module 'hostile'"


async def test_commands_of_servers_start_beside_their_programs(engine: Engine, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    manifest = "agents: {one: {model: 'openai:x', tools: [{mcp: {command: [python, server.py]}}]}}"
    for place in (here, there):
        (place / "teams").mkdir(parents=True)
        (place / "teams" / "server.py").write_text("")
        (place / "teams" / "team.yaml").write_text(manifest)
    source = source_of(load([here / "teams" / "team.yaml"]))
    prepared = prepare_team(source, engine.models, code=CodeFolder(here))
    local = source_on_worker(prepared.team.source, tmp_path / "cache", CodeFolder(there))
    tool = local.manifest.agents["one"].tools[0]
    assert isinstance(tool, McpSpec)
    assert tool.mcp.folder == str(there / "teams")


async def test_a_run_of_another_version_of_a_strategy_is_left_to_others(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "team.yaml").write_text("agents: {one: {function: 'textwrap:dedent'}}")
    prepared = prepare_team(source_of(load([folder / "team.yaml"])), engine.models)
    first, *rest = (batch := await engine.enqueue(prepared.team, "x", queue="q", run_id="one")).events
    assert isinstance(first.fact, RunStarted)
    newer = structs.replace(first, fact=first.fact.changed(strategies={"sequential": 77}))
    await commit(engine.journal, Batch([newer, *rest], batch.bodies))
    found = await loader(engine, tmp_path, allow=allowed(modules=["textwrap"])).load("one")
    assert str(found) == "waits for a worker with strategy 'sequential' version 77"


async def test_a_variable_that_this_machine_lacks_is_named(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    manifest = "agents: {one: {model: {url: '${PLACE}/v1', name: x, api_key: '${HOUSE_KEY}'}}}"
    await submit(engine, folder, manifest)
    monkeypatch.setenv("PLACE", "http://localhost:1")
    permissions = allowed(env=["PLACE", "HOUSE_KEY@localhost"])
    found = await loader(engine, tmp_path, allow=permissions).load("one")
    assert str(found) == (
        "waits for a worker with the environment variable 'HOUSE_KEY' allowed (--allow env:HOUSE_KEY)"
    )  # without a value, its host is not known
    found = await loader(engine, tmp_path, allow=allowed(env=["PLACE", "HOUSE_KEY"])).load("one")
    assert str(found) == "waits for a worker with the environment variable 'HOUSE_KEY'"
    monkeypatch.setenv("HOUSE_KEY", "s3cret-0123456789")
    assert isinstance(await loader(engine, tmp_path, allow=permissions).load("one"), Team)
    found = await loader(engine, tmp_path).load("one")
    assert str(found) == (
        "waits for a worker with the environment variable 'PLACE' allowed (--allow env:PLACE),"
        " the environment variable 'HOUSE_KEY' allowed (--allow env:HOUSE_KEY)"
    )


async def test_the_folders_that_a_record_allows_itself_are_not_allowed(engine: Engine, tmp_path: Path) -> None:
    folder, secret = tmp_path / "team", tmp_path / "elsewhere"
    folder.mkdir()
    secret.mkdir()
    (folder / "team.yaml").write_text(
        f"agents: {{one: {{model: 'openai:x', tools: [{{files: {{folder: '{secret}'}}}}]}}}}"
    )
    source = source_of(load([folder / "team.yaml"]), allow_roots=[secret])
    prepared = prepare_team(source, engine.models)
    assert prepared.options == (f"--allow-root {secret}",)
    await commit(engine.journal, await engine.enqueue(prepared.team, "x", queue="q", run_id="one"))
    found = await loader(engine, tmp_path).load("one")
    assert str(found) == f"waits for a worker with the path {str(secret)!r} allowed (--allow-root {secret})"
    assert await loader(engine, tmp_path, allow=allowed(roots=[tmp_path])).lacks("one") is None


async def test_a_new_member_of_a_run_is_held_to_what_the_worker_allows(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    await submit(engine, folder, "agents: {one: {function: 'textwrap:dedent'}}")
    team = await loader(engine, tmp_path, allow=allowed(modules=["textwrap"])).load("one")
    assert isinstance(team, Team)
    with pytest.raises(UsageError, match="needs a worker with the Python module 'os' allowed"):
        build_new_member(team, "late", {"function": "os:system"})
    assert build_new_member(team, "late", {"function": "textwrap:indent"}).name == "late"
