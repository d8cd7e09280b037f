"""The workspace as one call of a tool sees it: if the tool is executed again, each of its writes is made once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import JsonValue

from teamwright.agents.contract.context import Workspace
from teamwright.errors import StaleWrite
from teamwright.values.turns.artifacts import Artifact, SharedValue
from teamwright.values.turns.turn import Failure, Reply

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
        """The id of the run."""
        return self._workspace.run_id

    @property
    def task(self) -> str:
        """The task of the run."""
        return self._workspace.task

    def names(self) -> list[str]:
        """Return the names of all values."""
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
