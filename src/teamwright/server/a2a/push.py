"""Where clients want the updates of their tasks, in a private file beside the journal; deliveries are our webhooks'.

An address is checked when it is given and again at each delivery, which connects only to what it has checked.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from teamwright.runtime.people.webhook import Address, Webhook, WebhookRejected, private_is_allowed
from teamwright.server.a2a.wire import INVALID_PARAMS, A2AError, PushConfig
from teamwright.server.credentials import file_version, write_private

FILE = "server-a2a-push.json"
MOST_OF_TASK = 20
MOST_TASKS = 10_000
"""Tasks whose addresses are kept; those of the oldest go first."""
TOKEN_HEADER = "X-A2A-Notification-Token"


class PushConfigs:
    """The configurations of push notifications, by task and id."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_as: tuple[int, int] | None = None
        self._configs: dict[str, dict[str, PushConfig]] = {}

    def of(self, task_id: str) -> list[PushConfig]:
        """Return the configurations of a task, oldest first."""
        return list(self._current().get(task_id, {}).values())

    def find(self, task_id: str, id_: str) -> PushConfig | None:
        """Return a configuration of a task; `None` if there is none of this id."""
        return self._current().get(task_id, {}).get(id_)

    def check(self, config: PushConfig) -> None:
        """Raise `A2AError` for an address that can't be one; whether it may be called is checked at each call."""
        try:
            Address.of(config.url)
        except WebhookRejected as error:
            raise A2AError(INVALID_PARAMS, f"url: {error}") from error

    def add(self, task_id: str, config: PushConfig) -> PushConfig:
        """Add a configuration, or replace the one of its id; returns it with its id."""
        added = config.model_copy(update={"task_id": task_id, "id": config.id or _id_of(config)})
        known = self._current()
        of_task = known.setdefault(task_id, {})
        if added.id not in of_task and len(of_task) >= MOST_OF_TASK:
            raise A2AError(INVALID_PARAMS, f"the task {task_id!r} has {MOST_OF_TASK} configs already; delete one first")
        of_task[added.id] = added
        while len(known) > MOST_TASKS:
            del known[next(iter(known))]
        self._save()
        return added

    def delete(self, task_id: str, id_: str) -> None:
        """Delete a configuration, if there is one."""
        of_task = self._current().get(task_id, {})
        if of_task.pop(id_, None) is not None:
            if not of_task:
                del self._configs[task_id]
            self._save()

    def _current(self) -> dict[str, dict[str, PushConfig]]:
        version = file_version(self._file)
        if version != self._read_as:
            self._configs, self._read_as = self._read(), version
        return self._configs

    def _read(self) -> dict[str, dict[str, PushConfig]]:
        try:
            stored = [PushConfig.model_validate(one) for one in json.loads(self._file.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return {}
        found: dict[str, dict[str, PushConfig]] = {}
        for one in stored:
            found.setdefault(one.task_id, {})[one.id] = one
        return found

    def _save(self) -> None:
        stored = [one.model_dump() for of_task in self._configs.values() for one in of_task.values()]
        write_private(self._file, stored)
        self._read_as = file_version(self._file)


def _id_of(config: PushConfig) -> str:
    """The id of a configuration that comes without one: the same for the same receiver, which a client may repeat."""
    return sha256(config.model_dump_json(exclude={"id", "task_id"}).encode()).hexdigest()[:16]


def receiver(config: PushConfig) -> tuple[Webhook, dict[str, str]]:
    """Return where an update is posted, and the headers that its receiver knows it by."""
    headers = {"A2A-Version": "1.0", "Content-Type": "application/a2a+json"}
    if config.token:
        headers[TOKEN_HEADER] = config.token
    if (shown := config.authentication) is not None and shown.credentials:
        headers["Authorization"] = f"{shown.scheme} {shown.credentials}"
    return Webhook(config.url, None, private_is_allowed()), headers
