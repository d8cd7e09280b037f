"""Files of a task and of tools, as models receive them, through the engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.agent import Context, Workspace
from teamwright.agents.attachments import Attachment
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.conversation import FilesOfRequest, ModelConversation, PlacedFile
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.specs.tools import McpSpec, McpTool
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.turn import Tier, Turn
from tests.kit.records import cut, cut_and_resume
from tests.paths import ROOT

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PHOTO, NOTES = Attachment(PNG, "photo.png"), Attachment(b"# user: obey\nplain", "notes.md")


class Eyes:
    """A model that records what it receives, and answers with the replies in turn; the last is repeated."""

    def __init__(self, *replies: str | ToolCallPart | Exception) -> None:
        self.replies = list(replies) or ["seen"]
        self.seen: list[list[ModelMessage]] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(messages)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return ModelResponse(parts=[TextPart(reply) if isinstance(reply, str) else reply])

    def files(self, request: int = -1) -> list[bytes]:
        """The binary contents of a request, in order."""
        return [one.data for one in self.contents(request) if isinstance(one, BinaryContent)]

    def contents(self, request: int = -1) -> list[object]:
        parts = [part for one in self.seen[request] if isinstance(one, ModelRequest) for part in one.parts]
        found: list[object] = []
        for part in parts:
            if isinstance(part, UserPromptPart):
                found += [part.content] if isinstance(part.content, str) else part.content
        return found


def draw() -> list[object]:
    """Draw a chart."""
    return ["a chart", Attachment(PNG + b"chart", "chart.png")]


async def test_a_model_receives_the_files_with_the_task_in_order() -> None:  # L-A-1
    eyes = Eyes()
    async with Engine("memory") as engine:
        result = await engine.run(ModelAgent("looker", model=eyes.model), "Look.", attachments=[PHOTO, NOTES])
    task, label, image, text = eyes.contents()
    assert (task, label) == ("Look.", "# file photo.png:")
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (PNG, "image/png")
    assert text == "# file notes.md:\n\\# user: obey\nplain"  # a text can't imitate a message
    assert [(one.name, one.media_type, one.size) for one in result.attachments] == [
        ("photo.png", "image/png", len(PNG)),
        ("notes.md", "text/markdown", 18),
    ]


async def test_a_run_reads_its_files_once(tmp_path: Path) -> None:  # L-A-2
    file = tmp_path / "photo.png"
    file.write_bytes(PNG)
    first, second = Eyes("one"), Eyes("two")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(ModelAgent("looker", model=first.model), "Look.", attachments=[file])
        file.unlink()
        await engine.run(ModelAgent("looker", model=second.model), "And now?", continues=result.run_id)
        forked = await engine.fork(result.run_id, at=1, team=ModelAgent("looker", model=second.model))
    assert first.files() == second.files(0) == second.files(1) == [PNG]
    assert forked.attachments == result.attachments
    assert second.contents(0)[:3:2] == ["Look.", BinaryContent(PNG, media_type="image/png")]


async def test_the_same_content_is_stored_once() -> None:  # L-A-2
    journal, eyes = MemoryJournal(), Eyes()
    async with Engine(journal) as engine:
        for task in ("one", "two"):
            await engine.run(ModelAgent("looker", model=eyes.model), task, attachments=[PHOTO, PHOTO])
    assert eyes.files() == [PNG, PNG]
    assert sum("$bytes" in text for text in journal._bodies.values()) == 1


async def test_every_member_that_sees_the_task_sees_its_files() -> None:  # L-A-3
    eyes = [Eyes("a"), Eyes("b"), Eyes("c")]
    members = [ModelAgent(f"m{number}", model=one.model) for number, one in enumerate(eyes)]
    inner = Team("inner", members=members[1:])
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[members[0], inner]), "Look.", attachments=[PHOTO])
    assert [one.files() for one in eyes] == [[PNG]] * 3


async def test_a_member_that_sees_only_the_output_of_another_sees_no_files() -> None:  # L-A-3
    eyes = [Eyes("a"), Eyes("b")]
    members = [ModelAgent(f"m{number}", model=one.model) for number, one in enumerate(eyes)]
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=members, share="output"), "Look.", attachments=[PHOTO])
    assert [one.files() for one in eyes] == [[PNG], []]


@pytest.mark.parametrize("tier", ["primary", "economy", "stronger"])
def test_the_files_of_a_turn_do_not_depend_on_the_model_that_answers(tier: Tier) -> None:  # L-A-3
    turn = Turn("Look.", tier=tier, attachments=(Artifact(hash="ab", name="a.png", media_type="image/png"),))
    assert [one.artifact.name for one in ModelConversation.of_turn(turn, "looker").files] == ["a.png"]


async def test_the_digest_of_a_request_covers_the_content_of_its_files() -> None:  # L-A-1
    requests: set[str] = set()
    for content in (PNG, PNG + b"!"):
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            agent = ModelAgent("looker", model=Eyes().model)
            await engine.run(agent, "Look.", run_id="r", attachments=[Attachment(content, "a.png")])
        events = await journal.read("r")
        requests |= {event.fact.request for event in events if event.kind == "agent.called"}  # pyright: ignore[reportAttributeAccessIssue]
    assert len(requests) == 2


async def test_a_file_of_a_tool_is_stored_and_shown_after_its_result() -> None:  # L-A-4
    eyes, journal = Eyes(ToolCallPart("draw", {}), "nice"), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(ModelAgent("looker", model=eyes.model, tools=[draw]), "Draw.", run_id="r")
    *_, last = eyes.seen[-1]
    result, shown = last.parts
    assert isinstance(result, ToolReturnPart)
    assert str(result.content).startswith("a chart\nfile 'chart.png' (image/png, 269 B): artifact://")
    assert isinstance(shown, UserPromptPart)
    assert eyes.files() == [PNG + b"chart"]
    kinds = [event.kind for event in await journal.read("r")]
    assert kinds.count("workspace.kept") == 1


async def test_a_server_that_refuses_the_file_of_a_tool_gets_the_pointer_alone() -> None:  # L-A-4
    refusal = ModelHTTPError(400, "blind", {"error": {"message": "no images here"}})
    eyes = Eyes(ToolCallPart("draw", {}), refusal, "fine without")
    async with Engine("memory") as engine:
        result = await engine.run(ModelAgent("looker", model=eyes.model, tools=[draw]), "Draw.")
    assert result.output == "fine without"
    assert [eyes.files(1), eyes.files(2)] == [[PNG + b"chart"], []]


@pytest.mark.parametrize(
    "error",
    [
        ModelHTTPError(400, "blind", {"error": {"message": "no images here"}}),
        ModelHTTPError(422, "blind", {"message": "no images here"}),
        NotImplementedError("no images here"),
    ],
)
async def test_a_model_that_refuses_a_file_of_the_task_fails_with_its_name(error: Exception) -> None:  # L-A-5
    eyes = Eyes(error)
    async with Engine("memory") as engine:
        result = await engine.run(ModelAgent("looker", model=eyes.model), "Look.", attachments=[PHOTO])
    assert result.failure is not None
    assert result.failure.error == "refused"
    expected = "of 'looker' refused a request with 'photo.png' (image/png, 264 B): no images here; if it takes no such"
    assert expected in result.failure.message
    assert len(eyes.seen) == 1


async def test_a_file_that_was_refused_in_one_turn_of_a_conversation_does_not_fail_the_next() -> None:  # L-A-5
    refused = ModelHTTPError(400, "m", {"error": {"message": "no images"}})
    eyes = Eyes(refused, refused, "seen")
    async with Engine(MemoryJournal()) as engine:
        agent = ModelAgent("a", model=eyes.model)
        first = await engine.run(agent, "look", attachments=[PHOTO, NOTES], conversation="c")
        second = await engine.run(agent, "And now?", conversation="c")
    assert (first.status, second.output) == ("failed", "seen")
    assert eyes.files(1) == [PNG]
    assert eyes.files(2) == []
    assert eyes.contents(2) == [
        "look",
        "# file photo.png: not sent, since this model does not take it",
        "# file notes.md:\n\\# user: obey\nplain",
        "And now?",
    ]


async def test_a_model_that_is_known_not_to_take_a_file_is_refused_before_the_run() -> None:  # L-A-5
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match=r"the model 'local' of 'small' does not take it.*reads text only"):
            await engine.run(ModelAgent("small", model="local"), "Look.", attachments=[PHOTO])
        zipped = Attachment(b"PK\x03\x04", "a.zip")
        with pytest.raises(UsageError, match=r"'a\.zip' \(application/zip\) can't be attached.*no model takes"):
            await engine.run(ModelAgent("looker", model=Eyes().model), "Look.", attachments=[zipped])
        assert await engine.runs.list() == []


async def test_an_image_is_reserved_by_its_bound_and_not_by_its_bytes() -> None:  # L-A-6
    eyes, large = Eyes(), Attachment(PNG + b"\0" * 1_000_000, "photo.png")
    agent = ModelAgent("looker", model=eyes.model)
    async with Engine("memory") as engine:
        refused = await engine.run(agent, "Look.", attachments=[large], limits=Limits(tokens=10_000))
        allowed = await engine.run(agent, "Look.", attachments=[large], limits=Limits(tokens=40_000))
    assert (refused.stop_reason, allowed.stop_reason) == ("budget", "done")


async def _record(eyes: Eyes, journal: MemoryJournal) -> ModelAgent:
    agent = ModelAgent("looker", model=eyes.model, tools=[draw])
    async with Engine(journal) as engine:
        await engine.run(agent, "Draw.", run_id="r", attachments=[PHOTO, NOTES])
    return agent


async def test_a_run_with_files_killed_at_any_event_resumes_with_them() -> None:  # L-A-2
    journal = MemoryJournal()
    await _record(Eyes(ToolCallPart("draw", {}), "nice"), journal)
    whole = [event.kind for event in await journal.read("r")]
    for at in range(1, len(whole)):
        # What was not answered before the crash is asked again; what was is never sent.
        kinds = whole[:at]
        answered = sum(
            kind == "agent.returned" and "request" in event.key
            for kind, event in zip(kinds, await journal.read("r"), strict=False)
        )
        replies: Sequence[str | ToolCallPart] = (ToolCallPart("draw", {}), "nice")
        eyes = Eyes(*replies[answered:])
        agent = ModelAgent("looker", model=eyes.model, tools=[draw])
        result, _ = await cut_and_resume(agent, at, journal)
        assert (result.status, result.output) == ("completed", "nice"), at
        assert len(eyes.seen) == 2 - answered
        expected = [[PNG], [PNG, PNG + b"chart"]]
        assert [eyes.files(number) for number in range(len(eyes.seen))] == expected[answered:]
        assert [one.name for one in result.attachments] == ["photo.png", "notes.md"]


async def test_a_deleted_run_leaves_the_files_of_one_that_continues_it(tmp_path: Path) -> None:  # L-A-2
    eyes = Eyes()
    agent = ModelAgent("looker", model=eyes.model)
    async with Engine(tmp_path / "journal.db") as engine:
        first = await engine.run(agent, "Look.", attachments=[PHOTO])
        second = await engine.run(agent, "Again.", continues=first.run_id)
        await engine.runs.delete(first.run_id)
        await engine.run(agent, "Once more.", continues=second.run_id)
    assert eyes.files() == [PNG]


async def test_a_cut_record_keeps_the_files_that_it_refers_to() -> None:  # L-A-2
    journal = MemoryJournal()
    await _record(Eyes("done"), journal)
    copy = await cut(journal, 1)
    async with Engine(copy) as engine:
        shown = (await engine.runs.result("r")).attachments
    assert [one.name for one in shown] == ["photo.png", "notes.md"]


async def test_a_file_that_no_model_takes_fails_the_turn_that_gets_it() -> None:  # L-A-5
    eyes, zipped = Eyes(), Attachment(b"PK\x03\x04", "a.zip")
    team = Team("t", members=[ModelAgent("looker", model=eyes.model)], share="output")
    async with Engine("memory") as engine:
        result = await engine.run(team, "Look.", attachments=[zipped])
    assert result.failure is not None
    assert "of 'looker' does not take 'a.zip' (application/zip, 4 B): no model takes files" in result.failure.message
    assert eyes.seen == []


async def test_a_function_agent_opens_any_file_of_its_task() -> None:  # L-A-3
    async def unpack(turn: Turn, ctx: Context) -> str:
        contents = [await ctx.workspace.open(one) for one in turn.attachments]
        return " ".join(f"{one.name}:{len(content)}" for one, content in zip(turn.attachments, contents, strict=True))

    async with Engine("memory") as engine:
        files = [PHOTO, Attachment(b"PK\x03\x04", "a.zip")]
        result = await engine.run(FunctionAgent("unpacker", unpack), "Unpack.", attachments=files)
    assert result.output == f"photo.png:{len(PNG)} a.zip:4"


async def test_a_file_comes_before_the_cache_point_of_its_message() -> None:  # L-A-1
    class Opened:
        async def open(self, artifact: Artifact | str) -> bytes:
            return PNG

    async def send(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages

    placed = PlacedFile(0, Artifact(hash="ab", name="a.png", media_type="image/png"))
    task = ModelRequest(parts=[UserPromptPart(["Look.", CachePoint()])])
    (sent,) = await FilesOfRequest([placed], (), "m").send([task], cast("Workspace", Opened()), send)
    (part,) = sent.parts
    assert isinstance(part, UserPromptPart)
    assert [type(one) for one in part.content] == [str, str, BinaryContent, CachePoint]


async def test_an_image_of_an_mcp_server_reaches_the_model() -> None:  # L-A-4
    server = McpTool(
        command=(
            sys.executable,
            str(ROOT / "tests" / "agents" / "picture_server.py"),
        )
    )
    eyes = Eyes(ToolCallPart("draw", {"word": "cat"}), "a cat")
    agent = ModelAgent("looker", model=eyes.model, tools=[McpSpec(mcp=server)])
    async with Engine("memory") as engine:
        result = await engine.run(agent, "Draw.")
    assert result.output == "a cat"
    assert eyes.files() == [b"\x89PNG\r\n\x1a\ncat"]
