"""The team that a command starts: declared in files, or recorded by an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import say

if TYPE_CHECKING:
    from teamwright.errors import UsageError
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.team_source import TeamSource
    from teamwright.teams.manifests.load import Loaded


def load_manifest(paths: Sequence[Path], model: str | None) -> Loaded:
    """Load the files, in which `model` replaces every model, and print the warnings."""
    from teamwright.teams.load import read_manifest

    loaded = read_manifest(paths, models_replaced=model is not None)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded


async def recorded_source(
    engine: Engine,
    run_id: str,
    model: str | None = None,
    allow_roots: Sequence[Path] = (),
    code: Path | None = None,
) -> TeamSource:
    """The team that a run recorded, with another model, more folders, or the folder of its manifest where given."""
    from teamwright.runtime.team_source import read_source
    from teamwright.teams.load import source_with_model, source_with_roots

    history = await engine.runs.history(run_id)
    found = (await read_source(engine.journal, history.record, code or "")).changed(
        partial(source_with_roots, allow_roots=allow_roots)
    )
    return found if model is None else found.changed(partial(source_with_model, model=model))


async def last_turn(engine: Engine, conversation: str | None) -> str | None:
    """The newest run of a conversation, whose team the next turn uses if no manifest is given."""
    if conversation is None:
        return None
    turn = await engine.conversations.last(conversation)
    return None if turn is None else turn.id


async def no_manifest(engine: Engine, conversation: str | None) -> UsageError:
    """Return the error of a command that has no manifest and no conversation to take the team from."""
    from teamwright.errors import UsageError, nearest

    if conversation is None:
        return UsageError("Name a manifest: a file or a folder. `teamwright new my-team` creates one to start with.")
    hint = nearest(conversation, [one.name for one in await engine.conversations.list()], "name a manifest to begin it")
    return UsageError(f"There is no conversation {conversation!r} to continue: {hint}")
