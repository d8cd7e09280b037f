"""A team as the agent of an editor, over the Agent Client Protocol.

Every session is a conversation in the journal, so that a session which the editor loads again shows what was said. Each
prompt is a run of the team, and its next turn. A run that waits for its user's text ends its prompt; the next prompt is
the answer, and the run goes on, since the protocol knows no free text.

A run becomes the updates of a session by a fold over its page events, in which secrets are masked already. The answer
of the team is what the agent says, what its members write on the way is what it thinks, and steps of plans are the
entries of the agent's plan.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, assert_never

import anyio
from pydantic import JsonValue

from teamwright.agents.acp_connection import INVALID_PARAMS, Json, items_at, part_at, text_at
from teamwright.errors import TeamwrightError, UsageError
from teamwright.runtime.run_request import RunRequest, new_run_id
from teamwright.server.chat.acp_peer import INTERNAL, INVALID_REQUEST, Peer, RefusedCall, unknown_method
from teamwright.server.chat.agui_projection import RunProjection, SegmentEnding, decode
from teamwright.server.chat.chat_completions import answering_member
from teamwright.server.error_responses import require_run
from teamwright.server.frames import Frame
from teamwright.server.page.page_events import (
    PagePlanUpdate,
    PageRun,
    PageStep,
    PageToolCall,
    PageToolResult,
    StepState,
)
from teamwright.server.questions import full_text
from teamwright.server.routes.runs import begin_run
from teamwright.server.state import ServerState
from teamwright.values.events.run import RunPaused
from teamwright.values.people import ABORT, EDIT, NO, REJECT, SMALLER, STOP, Answer
from teamwright.values.text.display import cut, name_text
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import FOR_PEOPLE

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.server.overview import WaitingQuestion
    from teamwright.teams.team import Team
    from teamwright.values.turns.results import RunSummary


TOOL_KINDS = {
    "read_file": "read", "list_files": "search", "search_files": "search", "write_file": "edit", "edit_file": "edit",
    "run_command": "execute", "read_value": "read", "recall": "read",
}  # fmt: skip
"""The kinds of calls that editors show in ways of their own."""
LONGEST_TITLE, LONGEST_RESULT = 120, 20_000


def said(kind: str, text: str) -> Json:
    """Return an update that is a piece of text."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


class RunUpdates:
    """The updates of one run; `ending` says how the present part of it ended with the last page event."""

    def __init__(self, run_id: str, last: str | None) -> None:
        self._projection = RunProjection(run_id, last)
        self._thoughts: set[str] = set()
        self._plans: dict[str, dict[str, tuple[str, StepState]]] = {}
        self._entries: list[Json] = []

    @property
    def start(self) -> int:
        """The event with which the present part of the run began; 0 for the first."""
        return self._projection.start

    @property
    def ending(self) -> SegmentEnding | None:
        return self._projection.ending

    def apply(self, frame: Frame) -> list[Json]:
        """Return the updates that a page event becomes."""
        match frame.kind:
            case "tool_call" | "tool_result":
                self._projection.apply(frame)
                return list(self._called(decode(frame.text)))
            case "plan_update" | "step":
                return list(self._planned(decode(frame.text)))
            case "run":
                told = self._told(self._projection.apply(frame))
                return [*told, *self._held(decode(frame.text))]
            case _:
                return list(self._told(self._projection.apply(frame)))

    def _held(self, shown: object) -> Iterator[Json]:
        """Say that the run waits for something else than people, such as its provider."""
        if isinstance(shown, PageRun) and shown.state == "paused" and self.ending is None:
            yield said(
                "agent_thought_chunk", f"\n\nThe run is paused ({shown.reason}), and goes on by itself or by hand."
            )

    def _told(self, events: Iterable[dict[str, Any]]) -> Iterator[Json]:
        for event in events:
            match event["type"]:
                case "TEXT_MESSAGE_START" if "subagentRunId" in event:
                    self._thoughts.add(event["messageId"])
                    yield said("agent_thought_chunk", f"\n\n{event.get('name', '')}: ")
                case "TEXT_MESSAGE_CONTENT":
                    is_thought = event["messageId"] in self._thoughts
                    yield said("agent_thought_chunk" if is_thought else "agent_message_chunk", event["delta"])
                case "REASONING_MESSAGE_CONTENT":
                    yield said("agent_thought_chunk", event["delta"])
                case _:
                    continue

    def _called(self, shown: object) -> Iterator[Json]:
        match shown:
            case PageToolCall(method="") if shown.attempt == 1:
                yield {
                    "sessionUpdate": "tool_call",
                    "toolCallId": shown.key,
                    "title": title_of(shown),
                    "kind": TOOL_KINDS.get(shown.tool, "other"),
                    "status": "in_progress",
                    "rawInput": shown.arguments,
                }
            case PageToolResult(retry_in=None):
                text = shown.result if isinstance(shown.result, str) else json.dumps(shown.result, ensure_ascii=False)
                if shown.failure is not None:
                    text = f"{shown.failure.error}: {shown.failure.message}"
                content: Json = {"type": "content", "content": {"type": "text", "text": cut(text, LONGEST_RESULT)}}
                status = "completed" if shown.failure is None else "failed"
                update: Json = {"sessionUpdate": "tool_call_update", "toolCallId": shown.key, "status": status}
                whole: Json = {"rawOutput": shown.result} if len(text) <= LONGEST_RESULT else {}
                yield {**update, "content": [content], **whole}
            case _:
                return

    def _planned(self, shown: object) -> Iterator[Json]:
        """Yield all entries of all plans, whenever one of them changes."""
        match shown:
            case PagePlanUpdate(scope=scope, steps=steps):
                self._plans[scope] = {one.id: (one.name or one.task, one.state) for one in steps}
            case PageStep(scope=scope, step=step, state=state) if step in self._plans.get(scope, {}):
                self._plans[scope][step] = (self._plans[scope][step][0], state)
            case _:
                return
        entries = [entry_of(*one) for plan in self._plans.values() for one in plan.values()]
        if entries != self._entries:
            self._entries = entries
            yield {"sessionUpdate": "plan", "entries": [*entries]}


def entry_of(content: str, state: StepState) -> Json:
    """Return a step as an entry of a plan. Editors know three states, so what else became of a step is in the text."""
    match state:
        case "pending" | "waiting":
            return _entry(content, "pending")
        case "running":
            return _entry(content, "in_progress")
        case "completed":
            return _entry(content, "completed")
        case "degraded" | "skipped" | "failed" | "timeout" | "cancelled":
            return _entry(f"{content} ({state})", "completed")
        case _:
            assert_never(state)


def _entry(content: str, status: str) -> Json:
    return {"content": content, "priority": "medium", "status": status}


def title_of(call: PageToolCall) -> str:
    """Return a call as a short text: the tool, and its first argument."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    first = next((str(one) for one in given.values() if isinstance(one, str | int | float)), "")
    return cut(" ".join(f"{call.tool} {first}".split()), LONGEST_TITLE)


REFUSALS = frozenset((REJECT, NO, STOP, ABORT))
NEED_TEXT = frozenset((EDIT, SMALLER))
"""Choices that want a text or an amount besides: they are made on the page or the command line."""
LONGEST_QUESTION, LONGEST_DRAFT = 200, 20_000


def permission_of(session: str, asked: WaitingQuestion) -> Json:
    """Return the request for permission that a question with choices is."""
    call: Json = {
        "toolCallId": asked.key,
        "title": cut(mask_text(asked.text), LONGEST_QUESTION),
        "kind": "other",
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": cut(full_text(asked), LONGEST_DRAFT)}}],
    }
    options: list[JsonValue] = [
        {
            "optionId": str(place),
            "name": mask_text(choice),
            "kind": "reject_once" if choice in REFUSALS else "allow_once",
        }
        for place, choice in enumerate(asked.choices)
        if choice not in NEED_TEXT
    ]
    return {"sessionId": session, "toolCall": call, "options": options}


def decision_of(asked: WaitingQuestion, result: Json, by: str) -> Answer | None:
    """Return the answer that the user of the editor has chosen; `None` if the editor has cancelled."""
    chosen = text_at(result, "outcome", "optionId")
    if text_at(result, "outcome", "outcome") != "selected" or not chosen.isdecimal():
        return None
    place = int(chosen)
    return Answer(text=asked.choices[place], by=by) if place < len(asked.choices) else None


def question_text(asked: WaitingQuestion) -> str:
    """Return a question that wants a text, as what the agent says."""
    return f"\n\n{full_text(asked)}"


def prompt_text(params: Json) -> str:
    """Return a prompt as one text: its texts, the texts of files that came with it, and the names of other files."""
    pieces: list[str] = []
    for block in items_at(params, "prompt"):
        match text_at(block, "type"):
            case "text":
                pieces.append(text_at(block, "text"))
            case "resource_link":
                pieces.append(f"[{text_at(block, 'name')}]({text_at(block, 'uri')})")
            case "resource":
                file = part_at(block, "resource")
                pieces.append(f"\n{text_at(file, 'uri')}:\n```\n{text_at(file, 'text')}\n```\n")
            case _:
                continue
    return "".join(pieces)


RELEASE_SECONDS = 2.0
"""How long a decision waits for the driver to let go of a run that waits, so that it resumes it."""
CANCELLED = "cancelled in the editor"
NOT_READ = "The last run of this session waits for a decision, so this message was not read.\n\n"


class EditorSession:
    """A session: its id is the name of the conversation."""

    def __init__(self, id_: str, server: ServerState, team: Team, visitor: Visitor, peer: Peer) -> None:
        self.id, self._server, self._team, self._visitor, self._peer = id_, server, team, visitor, peer
        self._run = ""
        """The run that the prompt at work follows."""
        self._is_at_work = self._is_cancelled = False

    async def replay(self) -> None:
        """Show the editor what was said before in the session."""
        conversations = self._server.engine.conversations
        if await conversations.last(self.id) is None:
            return
        for turn in (await conversations.read(self.id)).turns:
            await self.update(said("user_message_chunk", mask_text(turn.task)))
            if turn.output:
                await self.update(said("agent_message_chunk", mask_text(turn.output)))

    async def update(self, update: Json) -> None:
        """Send an update."""
        await self._peer.tell("session/update", {"sessionId": self.id, "update": update})

    async def cancel(self) -> None:
        """Cancel the prompt at work, and its run."""
        if self._is_at_work:
            self._is_cancelled = True
            await self._cancel_run()

    async def _cancel_run(self) -> None:
        if self._run:
            with suppress(TeamwrightError):  # it has ended
                await self._server.engine.runs.cancel(self._run, CANCELLED, by=self._visitor.name, wait=False)

    async def prompt(self, text: str) -> Json:
        """Run the team with a prompt, or let its run go on with it as an answer; returns how the turn ended."""
        if self._is_at_work:
            raise RefusedCall(INVALID_REQUEST, "a prompt of this session is at work; cancel it, or wait for its end")
        self._is_at_work, self._is_cancelled = True, False
        try:
            start = await self._begin(text)
            return start if isinstance(start, dict) else await self._follow(start)
        finally:
            self._is_at_work, self._run = False, ""

    async def _begin(self, text: str) -> int | Json:
        """Start the run, or let the one that waits go on.

        Returns the event after which it is of this prompt, or how the turn ended if the run waits for more.
        """
        last = await self._server.engine.conversations.last(self.id)
        if last is not None and last.status == "paused" and last.stop_reason in FOR_PEOPLE:
            self._run = last.id
            return await self._go_on(last, text)
        asked = RunRequest(self._team, text, conversation=self.id)
        self._run = await begin_run(self._server, asked, self._visitor)
        if self._is_cancelled:
            await self._cancel_run()
        return 0

    async def _go_on(self, found: RunSummary, text: str) -> int | Json:
        history = await self._server.engine.runs.history(found.id)
        start = max(one.number for one in history.events if isinstance(one.fact, RunPaused))
        waiting = await self._waiting()
        if free := [one for one in waiting if not one.choices]:
            await self._server.engine.runs.answer(found.id, free[0].key, Answer(text=text, by=self._visitor.name))
        else:
            await self.update(said("agent_thought_chunk", NOT_READ))
        ended = await self._settle([one for one in waiting if one not in free[:1]])
        return start if ended is None else ended

    async def _waiting(self) -> list[WaitingQuestion]:
        summary = await require_run(self._server.engine, self._run)
        return await self._server.inbox.open_questions(summary)

    async def _follow(self, start: int) -> Json:
        """Send what happens in the run until it ends, or waits for a text."""
        updates = RunUpdates(self._run, answering_member(self._team))
        async with self._server.feeds.follow(self._run) as feed:
            while (frames := await feed.next()) is not None:
                for frame in frames:
                    is_here = updates.start >= start
                    for update in updates.apply(frame):
                        if is_here or update["sessionUpdate"] == "plan":
                            await self.update(update)
                    if not is_here or (ending := updates.ending) is None:
                        continue
                    if ending.run is not None:
                        return await self._ended(ending.run)
                    with anyio.move_on_after(RELEASE_SECONDS):
                        await self._server.driven.wait(self._run)
                    if (ended := await self._settle(await self._waiting())) is not None:
                        return ended
        raise RefusedCall(INTERNAL, f"the run {self._run!r} can't be followed any more")

    async def _settle(self, waiting: Sequence[WaitingQuestion]) -> Json | None:
        """Let the user decide what the run waits for; returns how the turn ends, or `None` if the run goes on now."""
        for one in waiting:
            if not one.choices:
                continue
            permission = permission_of(self.id, one)
            chosen = await self._peer.ask("session/request_permission", permission)
            answer = decision_of(one, chosen, self._visitor.name)
            if answer is None:
                await self._cancel_run()
                return {"stopReason": "cancelled"}
            with suppress(UsageError):  # it was answered elsewhere meanwhile
                await self._server.engine.runs.answer(self._run, one.key, answer)
        if free := [one for one in waiting if not one.choices]:
            await self.update(said("agent_message_chunk", question_text(free[0])))
            return {"stopReason": "end_turn"}
        await self._server.driven.resume_if_paused(self._run)
        return None

    async def _ended(self, run: PageRun) -> Json:
        if run.status == "cancelled":
            return {"stopReason": "cancelled"}
        if run.status in {"failed", "timeout"} or not run.output:
            why = run.failure.message if run.failure is not None else "; ".join(run.warnings) or run.reason
            raise RefusedCall(INTERNAL, f"The run {self._run!r} has ended without an answer ({run.status}): {why}")
        if self._team.workspace is not None:
            how = f"\n\nIts changes are on a branch of the run: teamwright runs apply {self._run}"
            await self.update(said("agent_message_chunk", how))
        return {"stopReason": "max_turn_requests" if run.reason == "max_turns" else "end_turn", **_usage(run)}


def _usage(run: PageRun) -> Json:
    if run.usage is None or not run.usage.total_tokens:
        return {}
    used = run.usage
    counts = {"inputTokens": used.input_tokens, "outputTokens": used.output_tokens, "totalTokens": used.total_tokens}
    return {"usage": {**counts}}


VERSION = 1
PREFIX = "acp-"
"""What the names of conversations begin with that are sessions of editors."""
NOT_FOUND = -32002


class EditorAgent:
    """The agent that one editor has started."""

    def __init__(self, server: ServerState, team: Team, visitor: Visitor, peer: Peer) -> None:
        self._server, self._team, self._visitor, self._peer = server, team, visitor, peer
        self._sessions: dict[str, EditorSession] = {}

    async def answer(self, method: str, params: Json) -> JsonValue:
        """Return the result of a request."""
        match method:
            case "initialize":
                return self._introduce()
            case "session/new":
                self._check_folder(params)
                return {"sessionId": self._open(f"{PREFIX}{new_run_id(time.time())}").id}
            case "session/load":
                self._check_folder(params)
                await (await self._known(text_at(params, "sessionId"))).replay()
                return {}
            case "session/prompt":
                if not items_at(params, "prompt"):
                    raise RefusedCall(INVALID_PARAMS, "'prompt' has to be a list of blocks")
                return await self._session(params).prompt(prompt_text(params))
            case _:
                raise unknown_method(method)

    async def note(self, method: str, params: Json) -> None:
        """Take a notification; the only one that there is cancels a prompt."""
        if method == "session/cancel" and (session := self._sessions.get(text_at(params, "sessionId"))) is not None:
            await session.cancel()

    def _introduce(self) -> Json:
        abilities: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        }
        name: Json = {"name": "teamwright", "title": self._team.name, "version": version("teamwright")}
        return {"protocolVersion": VERSION, "agentCapabilities": abilities, "agentInfo": name, "authMethods": []}

    def _check_folder(self, params: Json) -> None:
        if not text_at(params, "cwd"):
            raise RefusedCall(INVALID_PARAMS, "'cwd' has to be the path of a folder")

    def _open(self, id_: str) -> EditorSession:
        made = self._sessions.get(id_) or EditorSession(id_, self._server, self._team, self._visitor, self._peer)
        self._sessions[id_] = made
        return made

    def _session(self, params: Json) -> EditorSession:
        id_ = text_at(params, "sessionId")
        if id_ not in self._sessions:
            raise RefusedCall(NOT_FOUND, f"there is no session {name_text(id_)}; open one with session/new")
        return self._sessions[id_]

    async def _known(self, id_: str) -> EditorSession:
        """Return a session of this team that was opened before, perhaps by another process."""
        if id_ in self._sessions:
            return self._sessions[id_]
        last = await self._server.engine.conversations.last(id_) if id_.startswith(PREFIX) else None
        if last is None or last.team != self._team.name:
            raise RefusedCall(NOT_FOUND, f"there is no session {name_text(id_)} of the team {self._team.name!r}")
        return self._open(id_)
