"""What a coding agent asks of its client: files below its folder and no others, and permission."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.agents.acp.connection import Json, items_at, part_at, text_at
from teamwright.agents.tools.files import Files
from teamwright.errors import ToolError
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import digest

PERMISSION = "session/request_permission"
LONGEST_DRAFT = 20_000
CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}
READ, WRITE = "fs/read_text_file", "fs/write_text_file"
OFFERED: Json = {"readTextFile": True, "writeTextFile": True}
"""What the client says that it can do with files."""
LONGEST_READ = 4 << 20
"""How many characters of a file are sent at once."""


class AgentFiles(Files):
    """The files below one folder, by the absolute paths that the protocol uses."""

    @property
    def folder(self) -> Path:
        return self._root

    def answer(self, method: str, params: Json) -> JsonValue:
        """Read or write a file as a request of the agent says; raises `ToolError` with why not."""
        place = self._resolve(self._below(text_at(params, "path")))
        if method == READ:
            return {"content": self._read(place, params.get("line"), params.get("limit"))}
        content = params.get("content")
        if not isinstance(content, str):
            raise ToolError("There is nothing to write: 'content' is no text.")
        self._write(place, content)
        return None

    def _below(self, path: str) -> str:
        """Return a path relative to the folder; one that leads elsewhere stays absolute, and is refused."""
        given = Path(path)
        return str(given.relative_to(self._root)) if given.is_relative_to(self._root) else path

    def _read(self, place: Path, line: JsonValue, limit: JsonValue) -> str:
        first = max(1, line) if isinstance(line, int) else 1
        last = first - 1 + max(0, limit) if isinstance(limit, int) else None
        pieces, size = list[str](), 0
        for piece in islice(self._lines(place), first - 1, last):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_READ:
                raise ToolError(f"{self._name(place)!r} is too long to be read at once; ask for some of its lines.")
        return "".join(pieces)


class Permission(NamedTuple):
    """What an agent wants to be allowed: its kind and its text, and what makes it the same request again."""

    kind: str
    text: str
    about: str

    @classmethod
    def of(cls, params: Json) -> Permission:
        call = part_at(params, "toolCall")
        kind, title = text_at(call, "kind") or "other", text_at(call, "title") or "something"
        shown = {name: call[name] for name in ("rawInput", "locations", "content") if call.get(name)}
        details = json.dumps(shown, ensure_ascii=False, indent=1, sort_keys=True) if shown else ""
        return cls(kind, cut(f"{title}\n{details}".strip(), LONGEST_DRAFT), digest(kind, title, details))


def chosen_option(params: Json, *, approved: bool) -> Json:
    """Return the answer to a request for permission: the option that says so for this once, else for always."""
    wanted = ("allow_once", "allow_always") if approved else ("reject_once", "reject_always")
    options = items_at(params, "options")
    ids = [text_at(one, "optionId") for kind in wanted for one in options if text_at(one, "kind") == kind]
    return {"outcome": {"outcome": "selected", "optionId": ids[0]}} if ids else CANCELLED
