"""Moves the paths in declarations, so that they are relative to another folder. Nothing here reads a file itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue

from teamwright.agents.tools.registry import find_kind, kinds_in

SCRIPTED, LOCAL = "scripted", "local"
Move = Callable[[str, str], str]
"""Returns the new path for what names it, `scripted`, `local` or a kind of tool, and for the path as written."""


def relocate(kind: str, value: JsonValue, move: Move, folder: Callable[[str], Path] | None = None) -> JsonValue:
    """Return the declaration of an agent, a model or a tool with its paths moved; `folder` resolves a moved path.

    Without a `folder`, nothing is recorded of the files at these paths.
    """
    if kind == "model":
        return _relocate_model(value, move)
    if kind == "tool":
        return _relocate_tool(value, move, folder)
    if kind != "agent" or not isinstance(value, dict):
        return value
    moved = dict(value)
    for name in ("model", "economy", "fallback"):
        if name in moved:
            moved[name] = _relocate_model(moved[name], move)
    if isinstance(script := moved.get(SCRIPTED), str):
        moved[SCRIPTED] = move(SCRIPTED, script)
    if isinstance(tools := moved.get("tools"), list):
        moved["tools"] = [_relocate_tool(tool, move, folder) for tool in tools]
    return moved


def _relocate_model(model: JsonValue, move: Move) -> JsonValue:
    """A model with its file moved; in the long forms, its name is under `model`."""
    if isinstance(model, dict) and "model" in model:
        return {**model, "model": _relocate_model(model["model"], move)}
    if isinstance(model, str):
        for prefix in (SCRIPTED, LOCAL):
            if model.startswith(f"{prefix}:"):
                return f"{prefix}:{move(prefix, model.removeprefix(f'{prefix}:'))}"
    return model


def _relocate_tool(tool: JsonValue, move: Move, folder: Callable[[str], Path] | None) -> JsonValue:
    if not isinstance(tool, dict):
        return tool
    moved = dict(tool)
    for name in kinds_in(tool):
        kind = find_kind(name)
        settings = kind.relocate(tool[name], lambda file, name=name: move(name, file))
        moved[name] = settings if folder is None else kind.pin(settings, folder)
    return moved
