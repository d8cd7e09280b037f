"""What is recorded of runs, as resources: the newest runs, the result and transcript of each, and its artifacts."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from teamwright.errors import RunNotFound, UnknownName
from teamwright.server.error_responses import require_run
from teamwright.server.masked_json import masked
from teamwright.server.mcp.results import SCHEME
from teamwright.server.page.projection import list_artifacts, read_artifact
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.messages import Message

if TYPE_CHECKING:
    from teamwright.server.state import ServerState


Json = dict[str, Any]
LISTED = 50
"""The newest runs that are listed."""
JSON, MARKDOWN = "application/json", "text/markdown"
TEMPLATES: list[Json] = [
    {"uriTemplate": f"{SCHEME}/{{run_id}}", "name": "run", "mimeType": JSON, "description": "the result of a run"},
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/transcript",
        "name": "transcript",
        "mimeType": MARKDOWN,
        "description": "what the members of a run said",
    },
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/artifacts",
        "name": "artifacts",
        "mimeType": JSON,
        "description": "the files and large texts of a run",
    },
    {
        "uriTemplate": f"{SCHEME}/{{run_id}}/artifacts/{{hash}}",
        "name": "artifact",
        "description": "the content of a file or large text",
    },
]


async def list_resources(server: ServerState) -> list[Json]:
    """Return the list of runs, and the result and transcript of the newest ones."""
    found: list[Json] = [{"uri": SCHEME, "name": "runs", "mimeType": JSON, "description": "the newest runs"}]
    for row in (await server.overview.page(LISTED)).rows:
        about = mask_text(f"{row.team}, {row.status}")
        found.append({"uri": f"{SCHEME}/{row.id}", "name": row.id, "mimeType": JSON, "description": about})
        found.append(
            {
                "uri": f"{SCHEME}/{row.id}/transcript",
                "name": f"{row.id} transcript",
                "mimeType": MARKDOWN,
                "description": about,
            }
        )
    return found


async def read_resource(server: ServerState, uri: str) -> Json:
    """Return the content of a resource; raises `RunNotFound` or `UnknownName`."""
    if uri == SCHEME:
        rows = [masked(row.model_dump()) for row in (await server.overview.page(LISTED)).rows]
        return _text(uri, JSON, json.dumps(rows))
    if not uri.startswith(f"{SCHEME}/"):
        raise UnknownName("resource", uri, [SCHEME])
    run_id, *rest = uri.removeprefix(f"{SCHEME}/").split("/")
    await require_run(server.engine, run_id)
    match rest:
        case []:
            return _text(uri, JSON, json.dumps(masked((await server.engine.runs.result(run_id)).to_json())))
        case ["transcript"]:
            return _text(uri, MARKDOWN, await _transcript(server, run_id))
        case ["artifacts"]:
            found = [one.to_json() for one in await list_artifacts(server.engine.journal, run_id)]
            return _text(uri, JSON, json.dumps(found))
        case ["artifacts", hash_]:
            return await _artifact(server, uri, run_id, hash_)
        case _:
            raise RunNotFound("/".join([run_id, *rest]))


async def _transcript(server: ServerState, run_id: str) -> str:
    history = await server.engine.runs.history(run_id)

    def paragraph(one: Message) -> str:
        return f"**{one.name}**: {one.content}"

    said = [paragraph(one) for one in history.messages_so_far()]
    return mask_text("\n\n".join([f"# {run_id}", f"**task**: {history.task}", *said]))


async def _artifact(server: ServerState, uri: str, run_id: str, hash_: str) -> Json:
    found, content = await read_artifact(server.engine.journal, run_id, hash_)
    media_type = found.media_type or "application/octet-stream"
    if media_type.startswith("text/") or media_type == JSON:
        return _text(uri, media_type, content.decode(errors="replace"))
    return {"uri": uri, "mimeType": media_type, "blob": b64encode(content).decode()}


def _text(uri: str, media_type: str, text: str) -> Json:
    return {"uri": uri, "mimeType": media_type, "text": text}
