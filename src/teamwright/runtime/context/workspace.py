"""The workspace as one scope of a run sees it: reads look at a point of the record, writes are recorded decisions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.errors import ArtifactNotFound, MisplacedEffect, StaleWrite
from teamwright.journal.decoder import decode_body
from teamwright.values.artifacts import POINTER, Artifact, Held
from teamwright.values.events.workspace import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
from teamwright.values.key import is_inside, join_key, key_and_parents
from teamwright.values.turns import Failure, Reply

if TYPE_CHECKING:
    from teamwright.runtime.context.context import RunContext

BYTES = "$bytes"


class Horizon:
    """Up to which number of the record a reader sees."""

    __slots__ = ("number",)

    def __init__(self, number: int = 0) -> None:
        self.number = number


class RunWorkspace:
    """Shared values, results and artifacts.

    Strategies see all that has reached the run. An agent sees what there was when its turn began and what it wrote
    since; a write that others have overtaken tells it what stands there now.
    """

    def __init__(self, context: RunContext, horizon: Horizon) -> None:
        self._context, self.horizon = context, horizon
        self._writes = self._artifacts = 0

    @property
    def run_id(self) -> str:
        """The run that it belongs to."""
        return self._context.run.run_id

    @property
    def task(self) -> str:
        """What the run was asked to do."""
        return self._context.run.task

    def names(self) -> list[str]:
        """The names of all values."""
        return self._context.run.store.names(self.horizon.number)

    def get(self, name: str) -> Held | None:
        """A value with its version, or nothing."""
        return self._context.run.store.get(name, self.horizon.number)

    def result(self, key: str) -> Reply | Failure | None:
        """What came of an earlier ask; the key is looked for in this scope and then in those around it."""
        heard = self._context.run.heard
        for scope in key_and_parents(self._context.path):
            number, ending = heard.get(join_key(scope, key), (0, None))
            if ending is not None and number <= self.horizon.number:
                return self._for_reading(ending)
        return None

    def _for_reading(self, ending: Reply | Failure) -> Reply | Failure:
        """The words of a failure are for people and records: an agent is told only that there was one."""
        if isinstance(ending, Failure) and self._context.agent_scope:
            return ending.changed(message="", messages=())
        return ending

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is what stands there.

        Without a version it takes the place of whatever is there; version 0 means that nothing may be.
        """
        context, run = self._context, self._context.run
        if context.closed:
            await run.left()
        self._writes += 1
        place = context.claim(key or f"write-{self._writes}")
        event = run.past.writes.get(join_key(context.path, place))
        if event is None:
            event = run.recorder.add(context.path, place, self._decide(name, value, version))
            if isinstance(event.fact, WorkspaceWritten):
                run.store.write(name, run.redactor.value(value), by=context.member, number=event.number)
        self.horizon.number = max(self.horizon.number, event.number)
        if isinstance(event.fact, WorkspaceConflicted):
            raise StaleWrite(name, event.fact.based_on, event.fact.revision, event.fact.by)
        assert isinstance(event.fact, WorkspaceWritten)
        return event.fact.revision

    def has_passed(self, key: str) -> None:
        """An effect was handed back from the record: what it wrote counts as seen, as it did when it was made."""
        numbers = (event.number for event in self._context.run.past.writes.values() if is_inside(event.key, key))
        self.horizon.number = max((self.horizon.number, *numbers))

    def _decide(self, name: str, value: JsonValue, version: int | None) -> WorkspaceWritten | WorkspaceConflicted:
        run = self._context.run
        held = run.store.get(name)
        current = held.version if held else 0
        body = run.recorder.keep(run.redactor.value(value))
        if version is not None and version != current:
            by = held.by if held else ""
            return WorkspaceConflicted(name=name, based_on=version, revision=current, body=body, by=by)
        return WorkspaceWritten(name=name, revision=current + 1, body=body, by=self._context.member)

    def merge(self, updates: dict[str, JsonValue]) -> list[str]:
        """Write what a reply brings along; returns warnings for values that others have changed meanwhile."""
        refused: list[str] = []
        for name, value in updates.items():
            context, run = self._context, self._context.run
            seen = self.get(name)
            fact = self._decide(name, value, seen.version if seen else 0)
            event = run.recorder.add(context.path, f"update-{name}", fact)
            if isinstance(fact, WorkspaceWritten):
                run.store.write(name, run.redactor.value(value), by=context.member, number=event.number)
            else:
                refused.append(
                    f"{fact.by!r} changed {name!r} while {context.member!r} was at work, so what it wrote there was not"
                    " taken over"
                )
        return refused

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store something large once, and return a pointer to it."""
        context, run = self._context, self._context.run
        if context.closed:
            await run.left()
        self._artifacts += 1
        place = context.claim(key or f"artifact-{self._artifacts}")
        text = isinstance(content, str)
        content, name = run.redactor.content(content), run.redactor.text(name)
        body = run.recorder.keep(content if isinstance(content, str) else {BYTES: b64encode(content).decode()})
        kind = media_type or ("text/plain" if text else "application/octet-stream")
        artifact = Artifact(hash=body, name=name or f"artifact-{self._artifacts}", media_type=kind, size=len(content))
        run.past.artifacts.add(body)
        if ("workspace.kept", context.path, place) not in run.past.noted:
            run.recorder.add(context.path, place, WorkspaceKept(artifact=artifact, by=context.member))
        return artifact

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """Return the content behind a pointer; raises `ArtifactNotFound` for what this run has not kept.

        Only agents open artifacts; strategies pass pointers on. The journal stores equal texts of all runs once, so a
        hash alone proves nothing: only artifacts that this run, or the part of a run it was forked from, kept count.
        """
        context, run = self._context, self._context.run
        if not context.agent_scope:
            raise MisplacedEffect(join_key(context.path, "open"))
        body = artifact.removeprefix(POINTER) if isinstance(artifact, str) else artifact.hash
        if body not in run.past.artifacts:
            raise ArtifactNotFound(artifact if isinstance(artifact, str) else artifact.hash)
        await run.recorder.durable()
        found: JsonValue = decode_body((await run.bodies([body]))[body])
        return b64decode(str(found[BYTES])) if isinstance(found, dict) and BYTES in found else str(found)
