"""One call of a tool: an effect, and one more after each question that the tool asks a person.

If the tool is executed again, each of its writes to the workspace is made once. Messages of `ToolError` go to models:
they are part of prompts and must not change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import convert, structs, to_builtins
from pydantic import JsonValue

from teamwright.agents.agent import Context, Workspace, is_package_class
from teamwright.agents.attachments import ToolValue, split_files
from teamwright.agents.effect import (
    Attempt,
    Effect,
    InDoubtPolicy,
    Returned,
)
from teamwright.agents.tools.protocol import (
    SHARED_DEPENDENCIES,
    Arguments,
    CallPolicy,
    InputNeeded,
    LogLevel,
    PausingSource,
    ToolContext,
    ToolSource,
)
from teamwright.errors import AgentError, NotDone, StaleWrite, TeamwrightError, ToolError
from teamwright.values.events.agent import AgentProgressed
from teamwright.values.events.event import Fact
from teamwright.values.events.run import RunLogged
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question
from teamwright.values.run_keys import join_key, repeat_key
from teamwright.values.turns.artifacts import PATCH, Artifact, SharedValue, patch_in
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Failure, Reply
from teamwright.values.usage_and_prices import Usage
from teamwright.values.value import plain_json

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


class CallWorkspace:
    """Numbers the writes of a call, so that the record, or an earlier execution, knows them again."""

    def __init__(self, workspace: Workspace, call_key: str) -> None:
        self._workspace, self._call_key = workspace, call_key
        self._made: dict[str, Any] = {}
        self._count = 0

    def restart(self) -> None:
        """Begin another execution of the tool."""
        self._count = 0

    @property
    def run_id(self) -> str:
        return self._workspace.run_id

    @property
    def task(self) -> str:
        return self._workspace.task

    def names(self) -> list[str]:
        return self._workspace.names()

    def get(self, name: str) -> SharedValue | None:
        """Return a value with its version, or `None`."""
        return self._workspace.get(name)

    def result(self, key: str) -> Reply | Failure | None:
        """Return the result of an earlier ask of this team, by its key."""
        return self._workspace.result(key)

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is the current one."""
        return await self._once(key, lambda place: self._workspace.put(name, value, version=version, key=place))

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store content once as an artifact, and return a pointer to it."""
        return await self._once(
            key, lambda place: self._workspace.keep(content, name=name, media_type=media_type, key=place)
        )

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """Return the content of an artifact, by a pointer or by one from an envelope."""
        return await self._workspace.open(artifact)

    async def _once(self, key: str | None, write: Callable[[str], Awaitable[T]]) -> T:
        self._count += 1
        place = f"{self._call_key}/{key or f'write-{self._count}'}"
        if place not in self._made:
            try:
                self._made[place] = await write(place)
            except StaleWrite as error:
                self._made[place] = error
        made = self._made[place]
        if isinstance(made, StaleWrite):
            raise made
        return made


LONGEST_ERROR = 500


class RecordedToolCall:
    """One call of a tool, with all its executions. `make` returns its result, from the record where it has one."""

    def __init__(
        self, ctx: Context, source: ToolSource, name: str, arguments: Arguments, key: str, *, policy: CallPolicy
    ) -> None:
        self._ctx, self._source, self._name, self._arguments, self._key = ctx, source, name, arguments, key
        self._policy = policy
        self._answers: list[tuple[Question, Answer]] = []
        self._paused: tuple[JsonValue, list[Answer]] | None = None
        self._first_key = ""
        self._workspace: CallWorkspace | None = None

    async def make(self, *, member: str, owned: Owned, seconds: float | None, max_bytes: int) -> Returned:
        """Call the tool as an effect: recorded, counted, and not repeated on a replay.

        If the tool asks a person, the effect ends with the question. The next effect executes the tool again.
        """
        policy = self._policy
        request = [self._name, json.dumps(self._arguments, sort_keys=True, ensure_ascii=False)]
        effect_key, rounds = self._key, 0
        while True:
            effect = Effect(
                kind="tool",
                name=self._name,
                request=digest(*request),
                call=partial(self._call, member, owned),
                retry=policy.retry,
                timeout=seconds if policy.timeout is None else policy.timeout,
                max_bytes=max_bytes,
                arguments=dict(self._arguments),
                in_doubt=None if policy.just_repeats else self._in_doubt_policy(member, owned),
            )
            try:
                returned = self._with_changes_noted(await self._ctx.effect(effect_key, effect))
            except AgentError:
                if self._source.uses_tree and self._ctx.tree is not None:
                    self._ctx.tree.restore()
                raise
            if returned.form != "question":
                return returned
            rounds += 1
            answers = await self._ask(cast("dict[str, JsonValue]", returned.value))
            request += [json.dumps(to_builtins(one), sort_keys=True, ensure_ascii=False) for one in answers]
            effect_key = repeat_key(self._key, rounds)

    def _with_changes_noted(self, returned: Returned) -> Returned:
        """Return the result without the changes of the member's tree, which take effect here, also on a replay."""
        if not self._source.uses_tree or patch_in(returned.artifacts) is None or self._ctx.tree is None:
            return returned
        self._ctx.tree.note(returned.artifacts)
        return structs.replace(returned, artifacts=tuple(one for one in returned.artifacts if one.media_type != PATCH))

    async def _ask(self, record: dict[str, JsonValue]) -> list[Answer]:
        """Ask a person what an execution has left: the question of a function, or those of a source that goes on."""
        self._first_key = str(record["idempotency_key"])
        is_paused = "questions" in record
        questions = convert(record["questions"] if is_paused else [record["question"]], list[Question])
        answers: list[Answer] = []
        for question in questions:
            key = join_key(self._key, f"ask-{len(self._answers) + 1}")
            answers.append(await self._ctx.ask_person(question, key=key))
            self._answers.append((question, answers[-1]))
        self._paused = (record["state"], answers) if is_paused else None
        return answers

    def _in_doubt_policy(self, member: str, owned: Owned) -> InDoubtPolicy:
        policy = self._policy
        check = None if policy.check is None else partial(self._check, member, owned)
        action = digest(self._name, policy.once(self._arguments)) if policy.once is not None else ""
        return InDoubtPolicy(repeat=policy.repeats_in_doubt, check=check, action=action, key=self._key)

    async def _call(self, member: str, owned: Owned, attempt: Attempt) -> Returned:
        """Execute the tool; in the member's tree, where it works on files."""
        tree = self._ctx.tree if self._source.uses_tree else None
        if tree is None:
            return await self._execute(member, owned, attempt, None)
        async with tree.work() as folder:
            returned = await self._execute(member, owned, attempt, folder)
            changes = () if returned.form == "question" else await tree.changes()
        return structs.replace(returned, files=(*returned.files, *changes)) if changes else returned

    async def _execute(self, member: str, owned: Owned, attempt: Attempt, folder: Path | None) -> Returned:
        link = RunLink(self._ctx, self._name, self._shared_workspace, attempt, self._answers)
        context = self._context(member, owned, attempt, link, folder)
        try:
            result = await called(self._name, self._execution(context))
        except asyncio.CancelledError:
            raise
        except InputNeeded as needed:
            questions = [to_builtins(one) for one in needed.questions]
            left: JsonValue = {
                "questions": questions,
                "state": needed.state,
                "idempotency_key": context.idempotency_key,
            }
            return Returned(left, form="question")
        except BaseException as error:
            if link.question is None:
                # The retry policy of the tool decides whether it is called again, whatever it raised.
                if isinstance(error, ToolError) and not isinstance(error, NotDone):
                    error.retryable = self._policy.retries > 0
                raise
        else:
            if link.question is None:
                return self._returned(result)
        asked: JsonValue = {"question": to_builtins(link.question), "idempotency_key": context.idempotency_key}
        return Returned(asked, form="question")

    def _execution(self, context: ToolContext) -> Awaitable[ToolValue]:
        """Make the call from its start, or go on with one that people have answered."""
        source, name, arguments = self._source, self._name, self._arguments
        if self._paused is None:
            return source.call(name, arguments, context)
        if not isinstance(source, PausingSource):
            raise ToolError(f"The tool {name!r} can't go on with a call that has asked something.")
        return source.resume(name, arguments, *self._paused, context)

    async def _check(self, member: str, owned: Owned, attempt: Attempt) -> Returned | None:
        """Ask the outside world for the result of the call."""
        assert self._policy.check is not None
        link = RunLink(self._ctx, self._name, self._shared_workspace, attempt, self._answers)
        context = self._context(member, owned, attempt, link)
        result = await called(self._name, self._policy.check(self._arguments, context))
        return None if result is None else self._returned(result)

    def _returned(self, result: ToolValue) -> Returned:
        """Return the result of the call for the record; raises `ToolError` if a source of the user's gave no JSON."""
        value, files = split_files(result)
        if not is_package_class(type(self._source)):
            try:
                value = plain_json(value)
            except ValueError as error:
                raise ToolError(f"The tool {self._name!r} returned something that is not JSON: {error}") from error
        return Returned(value, usage=Usage(tool_calls=1), files=files)

    def _context(
        self, member: str, owned: Owned, attempt: Attempt, link: RunLink, folder: Path | None = None
    ) -> ToolContext:
        idempotency_key = self._first_key or attempt.idempotency_key
        return ToolContext(idempotency_key, self._key, owned, attempt.run_id, member, link, folder)

    def _shared_workspace(self) -> Workspace:
        """The workspace of all executions of this call, which make each write once."""
        if self._workspace is None:
            self._workspace = CallWorkspace(self._ctx.workspace, self._key)
        self._workspace.restart()
        return self._workspace


class QuestionAsked(BaseException):
    """Ends an execution of a tool at a question without an answer. No `except Exception` of a tool catches it."""


class RunLink:
    """Connects the context of one execution of a tool to its run."""

    def __init__(
        self,
        ctx: Context,
        tool: str,
        open_workspace: Callable[[], Workspace],
        attempt: Attempt,
        answers: list[tuple[Question, Answer]],
    ) -> None:
        self._ctx, self._tool, self._open_workspace = ctx, tool, open_workspace
        self._attempt, self._answers, self._asked = attempt, answers, 0
        self._loop, self._dependencies = asyncio.get_running_loop(), SHARED_DEPENDENCIES.get()
        self._opened: Workspace | None = None
        self.question: Question | None = None
        """The question without an answer that ended this execution."""

    @property
    def workspace(self) -> Workspace:
        if self._opened is None:
            self._opened = self._open_workspace()
        return self._opened

    def log(self, text: str, level: LogLevel) -> None:
        self._emit(RunLogged(text=text, level=level))

    def progress(self, text: str, done: float | None) -> None:
        """Record how far the call is."""
        self._emit(AgentProgressed(name=self._tool, text=text, done=done))

    def ask_person(self, question: Question) -> Answer:
        """Return the recorded answer to the next question of this execution, or end the execution."""
        if self.question is None and self._asked < len(self._answers):
            asked, answer = self._answers[self._asked]
            self._asked += 1
            if asked != question:
                raise ToolError(
                    f"The tool {self._tool!r} asked something else when it was executed again: {question.text!r},"
                    f" where it had asked {asked.text!r}"
                )
            return answer
        self.question = self.question or question
        raise QuestionAsked

    def dep(self, kind: type[T]) -> T:
        """Return the engine's object of this type."""
        return self._dependencies.get(kind)

    def _emit(self, fact: Fact) -> None:
        """Record a fact from any thread; a tool may be in a thread and outlive the loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._attempt.emit, fact)
        else:
            self._attempt.emit(fact)


async def called(name: str, call: Awaitable[ToolValue]) -> ToolValue:
    """Await a call of a tool; raises its exceptions as `ToolError`."""
    try:
        return await call
    except TeamwrightError as error:
        # Limits, fencing and the like are not the tool's fault and stop the run.
        if not isinstance(error, AgentError) or isinstance(error, ToolError):
            raise
        raise _tool_failure(name, error) from error
    except Exception as error:
        raise _tool_failure(name, error) from error


def _tool_failure(name: str, error: Exception) -> ToolError:
    message = str(error)
    if len(message) > LONGEST_ERROR:
        message = message[: LONGEST_ERROR - 1] + "…"
    return ToolError(f"The tool {name!r} failed: {type(error).__name__}{': ' if message else ''}{message}")
