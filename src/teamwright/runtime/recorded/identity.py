"""Whether a run that exists is the one that a caller asks for: an id stands for one team and one task."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import anyio

from teamwright.errors import RunExists
from teamwright.journal.codec import decode_body
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.run_control import POLL_INTERVAL
from teamwright.values.events.run import RunStarted
from teamwright.values.text.display import ELLIPSIS, cut
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    from teamwright.journal.protocol import Batch, Journal
    from teamwright.values.specs.models import AnyModel

LONGEST_TASK = 60
CONTEXT = 10
"""Characters that are shown before the first difference of two long tasks."""
MOST_PARTS = 3
DEEPEST = 3
"""Parts of a declaration are named down to this depth: `agents.writer.instructions`."""


async def require_same_run(journal: Journal, asked: Batch) -> None:
    """Raise `RunExists` if the run of this id has another team or task than `asked`, its first batch.

    Compared are the declaration of the team without its folder, the task with its files, and what the run continues.
    Limits, a budget and a confirmation are those of the first start.
    """
    started, new = await _started(journal, asked.run_id), asked.events[0].fact
    assert isinstance(new, RunStarted)
    if started is None:  # deleted, or its first driver died before it began
        return
    differs = list(_other_input(started, new))
    if started.task != new.task:
        differs.append(_task_text(await _text(journal, started.task), str(decode_body(asked.bodies[new.task]))))
    if started.manifest != new.manifest:
        recorded, declared = await _value(journal, started.manifest), decode_body(asked.bodies[new.manifest])
        if parts := list(islice(_other_parts(recorded, declared), MOST_PARTS + 1)):
            differs.insert(0, f"its team ({', '.join(parts[:MOST_PARTS])}{' …' if len(parts) > MOST_PARTS else ''})")
    if started.files and new.files and started.files != new.files:
        paths = sorted(path for path in {*started.files, *new.files} if started.files.get(path) != new.files.get(path))
        differs.insert(0, f"the files of its team ({', '.join(map(repr, paths[:MOST_PARTS]))})")
    if differs:
        raise RunExists(asked.run_id, differs)


async def require_same_task(journal: Journal, run_id: str, task: str, model: AnyModel) -> None:
    """Raise `RunExists` if the run of this id has another task, or if no agent of it has this model.

    Nothing else of its team is compared, since it was formed for the task.
    """
    started = await _started(journal, run_id)
    if started is None:
        return
    differs: list[str] = []
    if (recorded := await _text(journal, started.task)) != Redactor().text(task):
        differs.append(_task_text(recorded, task))
    written = model if isinstance(model, str) else model.model_dump(mode="json", exclude_unset=True)
    if written not in (models := _models_in(await _value(journal, started.manifest))):
        differs.append(
            f"its model, {_model_name(models[0]) if models else 'none'} there and {_model_name(written)} here"
        )
    if differs:
        raise RunExists(run_id, differs)


def _models_in(declared: JsonValue) -> list[JsonValue]:
    match declared:
        case {"manifest": {"agents": dict() as agents}}:
            return [one["model"] for one in agents.values() if isinstance(one, dict) and one.get("model")]
        case _:
            return []


def _model_name(written: JsonValue) -> str:
    return repr(written["name"] if isinstance(written, dict) and "name" in written else written)


async def _started(journal: Journal, run_id: str) -> RunStarted | None:
    """Return the start of a run; a driver that holds its lock already is about to record it."""
    while True:
        is_driven = await journal.is_driven(run_id)
        if first := await journal.read(run_id, limit=1):
            return first[0].fact if isinstance(first[0].fact, RunStarted) else None
        if not is_driven:
            return None
        await anyio.sleep(POLL_INTERVAL)


def _other_input(started: RunStarted, new: RunStarted) -> Iterator[str]:
    """Yield how the input of two runs differs, besides team and task."""
    if started.parent:
        yield f"its parent: it is a branch of the run {started.parent!r}"
    if new.conversation or started.conversation:
        if new.conversation != started.conversation:
            yield f"its conversation, {_id_text(started.conversation)} there and {_id_text(new.conversation)} here"
        return  # each turn continues the one before it, and its files are those of that turn
    recorded, asked = (one.origin.run_id if one.origin is not None else "" for one in (started, new))
    if asked and recorded != asked:
        yield f"the run that it continues, {_id_text(recorded)} there and {_id_text(asked)} here"
    if started.origin is None and started.history != new.history:
        yield "its history"
    if started.origin is None and [one.identity for one in started.attachments] != [
        one.identity for one in new.attachments
    ]:
        yield "the files of its task"


def _other_parts(recorded: JsonValue, declared: JsonValue) -> Iterator[str]:
    """Yield the parts of two declarations of a team that differ, by their paths."""
    before, now = cast("dict[str, JsonValue]", recorded), cast("dict[str, JsonValue]", declared)
    if before.get("team") != now.get("team"):
        yield f"{before.get('team')!r} there and {now.get('team')!r} here"
        return
    chosen = f"teams.{now.get('team')}" if "bundle" in before and "bundle" not in now else None
    for path in _paths(before.get("manifest"), now.get("manifest")):
        if chosen is None or not f"{path}.".startswith(f"{chosen}."):  # a topology was chosen for the first run
            yield path


def _paths(before: JsonValue, now: JsonValue, path: str = "", depth: int = 0) -> Iterator[str]:
    if before == now:
        return
    if depth == DEEPEST or not isinstance(before, dict) or not isinstance(now, dict):
        yield path
        return
    for name in dict.fromkeys((*before, *now)):
        yield from _paths(before.get(name), now.get(name), f"{path}.{name}" if path else name, depth + 1)


def _task_text(recorded: str, asked: str) -> str:
    """Quote both tasks; a long part that they begin with alike is left out."""
    pairs = enumerate(zip(recorded, asked, strict=False))
    alike = next((at for at, (one, other) in pairs if one != other), min(len(recorded), len(asked)))
    if alike > LONGEST_TASK // 2:
        recorded, asked = (ELLIPSIS + task[alike - CONTEXT :] for task in (recorded, asked))
    return f"its task, {cut(recorded, LONGEST_TASK)!r} there and {cut(asked, LONGEST_TASK)!r} here"


def _id_text(run_id: str) -> str:
    return repr(run_id) if run_id else "none"


async def _text(journal: Journal, body: str) -> str:
    return str(await _value(journal, body))


async def _value(journal: Journal, body: str) -> JsonValue:
    return decode_body((await journal.bodies([body]))[body])
