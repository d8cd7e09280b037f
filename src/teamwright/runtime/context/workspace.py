"""The workspace as one scope sees it: reads are as of a point of the record, and writes are recorded decisions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import cast

from msgspec import convert
from pydantic import JsonValue

from teamwright.agents.attachments import Attachment
from teamwright.errors import ArtifactNotFound, MisplacedEffect, StaleWrite, UsageError
from teamwright.journal.codec import decode_body
from teamwright.runtime.run_state import RunState
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
from teamwright.values.run_keys import is_inside, join_key, key_and_parents
from teamwright.values.turns.artifacts import BINARY, BYTES, PATCH, POINTER, TEXT, Artifact, SharedValue, content_of
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import OUTBOX, Failure, MemberRequest, Reply
from teamwright.values.value import check_text


class RunWorkspace:
    """Shared values, results and artifacts.

    Strategies see everything that has been delivered to the run. An agent sees the state at the start of its turn and
    its own writes; a write based on an outdated version raises `StaleWrite`.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope, self._horizon = scope, scope.horizon
        self._writes = self._artifacts = 0

    @property
    def run_id(self) -> str:
        return self._scope.run.run_id

    @property
    def task(self) -> str:
        return self._scope.run.task

    def names(self) -> list[str]:
        return self._scope.run.store.names(self._horizon.number)

    def get(self, name: str) -> SharedValue | None:
        """Return a value with its version, or `None`."""
        return self._scope.run.store.get(name, self._horizon.number)

    def result(self, key: str) -> Reply | Failure | None:
        """Return the ending of an earlier ask; the key is looked up in this scope, then in its parents."""
        heard = self._scope.run.delivered
        for path in key_and_parents(self._scope.path):
            number, ending = heard.get(join_key(path, key), (0, None))
            if ending is not None and number <= self._horizon.number:
                return self._visible_ending(ending)
        return None

    def _visible_ending(self, ending: Reply | Failure) -> Reply | Failure:
        """Return the ending without the texts of a failure if an agent reads it: they are for people and records."""
        if isinstance(ending, Failure) and self._scope.agent_scope:
            return ending.changed(message="", messages=())
        return ending

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is the current one.

        Without a version it replaces whatever is there; version 0 means that there must be none.
        """
        scope, run = self._scope, self._scope.run
        check_text("name", name)
        if name.startswith(OUTBOX):
            raise UsageError(f"{name!r} can't be written: names that begin with {OUTBOX!r} are the engine's.")
        if version is not None and type(version) is not int:
            raise UsageError(
                f"The version of a value in the workspace must be a whole number, and is {version!r:.100}."
            )
        if scope.is_closed:
            await run.park_until_cancelled()
        self._writes += 1
        place = scope.claim(key or f"write-{self._writes}")
        event = run.record.workspace.writes.get(join_key(scope.path, place))
        if event is None:
            event = run.recorder.add(scope.path, place, _write_fact(scope, name, value, version))
            if isinstance(event.fact, WorkspaceWritten):
                run.store.write(name, run.redactor.value(value), by=scope.member, number=event.number)
        self._horizon.number = max(self._horizon.number, event.number)
        if isinstance(event.fact, WorkspaceConflicted):
            raise StaleWrite(name, event.fact.based_on, event.fact.revision, event.fact.by)
        assert isinstance(event.fact, WorkspaceWritten)
        return event.fact.revision

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store something large once and return a pointer to it."""
        scope, run = self._scope, self._scope.run
        check_text("name", name)
        check_text("media_type", "" if media_type is None else media_type)
        if scope.is_closed:
            await run.park_until_cancelled()
        self._artifacts += 1
        place = scope.claim(key or f"artifact-{self._artifacts}")
        kind = media_type or (TEXT if isinstance(content, str) else BINARY)
        artifact = _store(run, content, name or f"artifact-{self._artifacts}", kind)
        if ("workspace.kept", scope.path, place) not in run.record.emitted:
            run.recorder.add(scope.path, place, WorkspaceKept(artifact=artifact, by=scope.member))
        return artifact

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """Return the content behind a pointer; raises `ArtifactNotFound` for what this run has not stored.

        Only agents open artifacts; strategies pass pointers on. The journal stores equal texts of all runs once, so a
        hash alone proves nothing: only artifacts of this run, or of the part of a run that it was forked from, can be
        opened.
        """
        scope, run = self._scope, self._scope.run
        if not scope.agent_scope:
            raise MisplacedEffect(join_key(scope.path, "open"))
        body = artifact.removeprefix(POINTER) if isinstance(artifact, str) else artifact.hash
        if body not in run.record.workspace.artifacts:
            raise ArtifactNotFound(artifact if isinstance(artifact, str) else artifact.hash)
        await run.recorder.flush()
        found: JsonValue = decode_body((await run.bodies([body]))[body])
        return b64decode(str(found[BYTES])) if isinstance(found, dict) and BYTES in found else str(found)


async def read_patch(run: RunState, patch: Artifact) -> bytes:
    """Return the content of recorded changes."""
    await run.recorder.flush()
    return content_of(decode_body((await run.bodies([patch.hash]))[patch.hash]))


def store_file(run: RunState, file: Attachment) -> Artifact:
    """Store the content of a file, with secrets masked; the caller records the fact that refers to it."""
    content = file.content.decode() if file.media_type == PATCH else file.content
    return _store(run, content, file.name, file.media_type)


def _store(run: RunState, content: str | bytes, name: str, media_type: str) -> Artifact:
    content, name = run.redactor.content(content), run.redactor.text(name)
    body = run.recorder.store(content if isinstance(content, str) else {BYTES: b64encode(content).decode()})
    run.record.workspace.artifacts.add(body)
    return Artifact(hash=body, name=name, media_type=media_type, size=len(content))


def include_writes(scope: Scope, key: str) -> None:
    """Let the scope see the recorded writes of an effect, as it did when the effect was made."""
    horizon = scope.horizon
    numbers = (event.number for event in scope.run.record.workspace.writes.values() if is_inside(event.key, key))
    horizon.number = max((horizon.number, *numbers))


def post_request(scope: Scope, request: MemberRequest, key: str) -> None:
    """Record what a member wants of others, in its own name, for who has asked it; once, if its turn is repeated."""
    run, place = scope.run, scope.claim(key)
    full = join_key(scope.path, place)
    event = run.record.workspace.writes.get(full)
    if event is None:
        posted = run.requests.setdefault(scope.agent_scope, [])
        if request.type == "hand_over" and any(one.type == "hand_over" for one in posted):
            raise UsageError(f"{scope.member!r} has handed its work over in this turn already; end the turn.")
        name = f"{OUTBOX}{scope.member}/{digest(full)[:16]}"
        value = run.redactor.value(cast("JsonValue", request.to_json()))
        fact = WorkspaceWritten(name=name, revision=1, body=run.recorder.store(value), by=scope.member)
        event = run.recorder.add(scope.path, place, fact)
        run.store.write(name, value, by=scope.member, number=event.number)
        posted.append(convert(value, MemberRequest))
    scope.horizon.number = max(scope.horizon.number, event.number)


def merge_updates(scope: Scope, updates: dict[str, JsonValue]) -> list[str]:
    """Write the workspace updates of a reply; returns a warning for each value that others have changed."""
    run, refused = scope.run, list[str]()
    for name, value in updates.items():
        if name.startswith(OUTBOX):
            refused.append(f"{scope.member!r} can't write {name!r}: names that begin with {OUTBOX!r} are the engine's")
            continue
        seen = run.store.get(name, scope.horizon.number)
        fact = _write_fact(scope, name, value, seen.version if seen else 0)
        event = run.recorder.add(scope.path, f"update-{name}", fact)
        if isinstance(fact, WorkspaceWritten):
            run.store.write(name, run.redactor.value(value), by=scope.member, number=event.number)
        else:
            refused.append(
                f"{fact.by!r} changed {name!r} while {scope.member!r} was at work, so what it wrote there was not"
                " taken over"
            )
    return refused


def _write_fact(
    scope: Scope, name: str, value: JsonValue, version: int | None
) -> WorkspaceWritten | WorkspaceConflicted:
    """Return the fact that records a write: a conflict if the value has another version than expected."""
    run = scope.run
    held = run.store.get(name)
    current = held.version if held else 0
    body = run.recorder.store(run.redactor.value(value))
    if version is not None and version != current:
        by = held.by if held else ""
        return WorkspaceConflicted(name=name, based_on=version, revision=current, body=body, by=by)
    return WorkspaceWritten(name=name, revision=current + 1, body=body, by=scope.member)
