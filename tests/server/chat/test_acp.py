"""Prompts of an editor as runs of a team: the answer, the plan, tool calls, questions, the end, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.errors import TeamwrightError
from teamwright.server.chat.acp import prompt_text
from teamwright.server.chat.acp_peer import RefusedCall
from teamwright.server.credentials import Allowance
from tests.server.chat.editors import Editors


async def test_a_prompt_is_a_run_whose_answer_is_what_the_agent_says(editors: Editors) -> None:
    async with editors("pair") as editor:
        ended = await editor.say(await editor.open(), "Go")
    assert ended["stopReason"] == "end_turn"
    assert editor.texts() == "two"
    assert "a: one" in editor.texts("agent_thought_chunk")


async def test_steps_and_tool_calls_are_shown(editors: Editors) -> None:
    async with editors("planned") as editor:
        await editor.say(await editor.open(), "Go")
    plans = [[one["status"] for one in plan["entries"]] for plan in editor.of("plan")]
    assert plans[0] == ["pending", "pending"]
    assert ["completed", "in_progress"] in plans
    assert plans[-1] == ["completed", "completed"]
    called, returned = editor.of("tool_call", "tool_call_update")
    assert (called["title"], called["status"], returned["status"]) == ("write_value x", "in_progress", "completed")
    assert called["toolCallId"] == returned["toolCallId"]


async def test_an_approval_is_a_permission_and_the_run_goes_on_with_the_choice(editors: Editors) -> None:
    async with editors("gated") as editor:
        ended = await editor.say(await editor.open(), "Go")
    (asked,) = editor.asked
    assert [one["name"] for one in asked["options"]] == ["approve", "reject"]
    assert "May this reply of 'b' stand?" in asked["toolCall"]["title"]
    assert (ended["stopReason"], editor.texts()) == ("end_turn", "two")


async def test_a_rejection_is_the_choice_of_the_user(editors: Editors) -> None:
    async with editors("gated") as editor:
        editor.choice = "reject_once"
        with pytest.raises(RefusedCall, match="Its reply was not to stand"):
            await editor.say(await editor.open(), "Go")


async def test_a_permission_that_the_editor_cancels_cancels_the_run(editors: Editors) -> None:
    async with editors("gated") as editor:
        editor.choice = "none"
        assert await editor.say(await editor.open(), "Go") == {"stopReason": "cancelled"}


async def test_a_question_for_a_text_ends_the_prompt_and_the_next_one_answers_it(editors: Editors) -> None:
    async with editors("asking") as editor:
        session = await editor.open()
        assert (await editor.say(session, "Go"))["stopReason"] == "end_turn"
        assert editor.texts().strip() == "Why?"
        assert [one["name"] for one in editor.asked[0]["options"]] == ["red", "blue"]
        editor.told.clear()
        await editor.say(session, "I like it")
        assert editor.texts() == "red because I like it"


async def test_a_session_is_a_conversation_that_another_process_loads(editors: Editors) -> None:
    async with editors("pair") as editor:
        session = await editor.open()
        assert await editor.call("session/load", sessionId=session, cwd="/") == {}
        await editor.say(session, "Go")
    async with editors("pair") as editor:
        assert await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[]) == {}
        assert [(one["sessionUpdate"], one["content"]["text"]) for one in editor.told] == [
            ("user_message_chunk", "Go"),
            ("agent_message_chunk", "two"),
        ]
        await editor.say(session, "Again")
    async with editors("asking") as editor:
        with pytest.raises(RefusedCall, match="there is no session"):
            await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])


async def test_a_question_outlives_the_process_of_the_editor(editors: Editors) -> None:
    async with editors("asking") as editor:
        session = await editor.open()
        await editor.say(session, "Go")
    async with editors("asking") as editor:
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        editor.told.clear()
        await editor.say(session, "late")
        assert editor.texts() == "red because late"


async def test_a_prompt_is_cancelled_while_its_run_is_at_work(editors: Editors) -> None:
    async with editors("held") as editor:
        session = await editor.open()
        prompt = asyncio.create_task(editor.say(session, "Go"))
        await asyncio.sleep(0.1)
        with pytest.raises(RefusedCall, match="a prompt of this session is at work"):
            await editor.say(session, "Me too")
        await editor.agent.note("session/cancel", {"sessionId": session})
        assert await prompt == {"stopReason": "cancelled"}


async def test_the_ceiling_of_the_command_bounds_each_prompt(editors: Editors) -> None:
    async with editors("pair", Allowance(None, 1)) as editor:
        with pytest.raises(RefusedCall, match=r"degraded.*: .*1 of 1 tokens left"):
            await editor.say(await editor.open(), "Go")


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        (
            "session/prompt",
            {"sessionId": "nope", "prompt": [{"type": "text", "text": "x"}]},
            "there is no session 'nope'",
        ),
        ("session/prompt", {"sessionId": "nope"}, "'prompt' has to be a list"),
        ("session/new", {}, "'cwd' has to be"),
        ("session/load", {"sessionId": "chat-1", "cwd": "/"}, "there is no session"),
        ("session/load", {"sessionId": "acp-" + "x" * 999, "cwd": "/"}, "conversation"),
        ("session/set_mode", {}, "'session/set_mode' is not offered here"),
        ("", {}, "is not offered here"),
    ],
)
async def test_a_wrong_request_is_refused_in_words(editors: Editors, method: str, params: Any, says: str) -> None:
    async with editors("pair") as editor:
        with pytest.raises(TeamwrightError, match=says):
            await editor.call(method, **params)


async def test_an_editor_learns_what_the_agent_can_do(editors: Editors) -> None:
    async with editors("pair") as editor:
        told = await editor.call("initialize", protocolVersion=1)
        await editor.agent.note("session/cancel", {"sessionId": "unknown"})
    assert told["protocolVersion"] == 1
    assert told["agentInfo"]["title"] == "pair"
    assert told["agentCapabilities"]["loadSession"] is True


def test_files_that_go_with_a_prompt_are_a_part_of_its_text(tmp_path: Path) -> None:
    blocks: list[JsonValue] = [
        {"type": "text", "text": "See "},
        {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}},
        {"type": "image", "data": ""},
    ]
    assert prompt_text({"prompt": blocks}) == "See [a.py](file:///a.py)\nfile:///b.py:\n```\nx = 1\n```\n"
