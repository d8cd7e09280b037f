"""The result of a run as the result of a tool call, and what a client gets that can't wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teamwright.server.masked_json import masked
from teamwright.server.mcp.input_requests import input_request
from teamwright.server.page.projection import list_artifacts
from teamwright.values.text.secret_patterns import mask_text

if TYPE_CHECKING:
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.state import ServerState
    from teamwright.values.turns.results import RunResult


Json = dict[str, Any]
INTERNAL_ERROR = -32603
"""JSON-RPC's code for a failure of the server itself."""
RUN_META, STATUS_META = "teamwright/run", "teamwright/status"
"""What the `_meta` of a result names: the run, and its status."""
SCHEME = "teamwright://runs"
RUN_RESULT = "run_result"
"""The tool that returns the result of a run."""


def text_block(text: str) -> Json:
    """Return a text as content of a result, with secrets masked."""
    return {"type": "text", "text": mask_text(text)}


def tool_error(text: str) -> Json:
    """Return the result of a call that failed, in words for the model that made it."""
    return {"resultType": "complete", "content": [text_block(text)], "isError": True}


def is_crash(result: RunResult) -> bool:
    """Whether code of the team broke; every other failure is one that its caller can do something about."""
    return result.status == "failed" and result.failure is not None and result.failure.error == "crash"


async def tool_result(server: ServerState, result: RunResult) -> Json:
    """Return the result of a run that has ended: the answer, its data, and links to its files.

    A run without an answer is an error of the tool, with what it had so far.
    """
    meta: Json = {RUN_META: result.run_id, STATUS_META: result.status}
    if result.output_kind != "answer":
        reason = result.failure.message if result.failure is not None else result.stop_reason
        content = [text_block(f"The run {result.run_id!r} is {result.status}: {reason}")]
        if result.output:
            content.append(text_block(f"What it had so far:\n\n{result.output}"))
        return {"resultType": "complete", "content": content, "isError": True, "_meta": meta}
    content = [text_block(result.output or ""), *await _links(server, result.run_id)]
    found: Json = {"resultType": "complete", "content": content, "isError": False}
    if isinstance(result.data, dict):
        found["structuredContent"] = masked(result.data)
    if result.warnings:
        meta["teamwright/warnings"] = [mask_text(one) for one in result.warnings]
    return {**found, "_meta": meta}


async def _links(server: ServerState, run_id: str) -> list[Json]:
    return [
        {
            "type": "resource_link",
            "uri": f"{SCHEME}/{run_id}/artifacts/{one.hash}",
            "name": mask_text(one.name or one.hash),
            "mimeType": one.media_type,
        }
        for one in await list_artifacts(server.engine.journal, run_id)
    ]


def goes_on(run_id: str, why: str, *, has_schema: bool) -> Json:
    """Return the answer to a client that could not wait any longer. Its run goes on.

    A tool that promises data can't say so as a success: clients check the data of every success.
    """
    text = f"The run {run_id!r} {why}. Call the tool {RUN_RESULT!r} with run_id={run_id!r} for its result."
    meta = {RUN_META: run_id, STATUS_META: "running"}
    return {"resultType": "complete", "content": [text_block(text)], "isError": has_schema, "_meta": meta}


def input_required(waiting: list[WaitingQuestion], state: str | None) -> Json:
    """Return the questions of a run to a client that asks people; it makes the call again with what they answered."""
    asked: Json = {"resultType": "input_required", "inputRequests": {one.key: input_request(one) for one in waiting}}
    return asked if state is None else {**asked, "requestState": state}


def waits_for_person(run_id: str, waiting: list[WaitingQuestion], *, has_schema: bool) -> Json:
    """Return the answer to a client whose run waits for a person, with the questions."""
    asked = "; ".join(one.text for one in waiting)
    return goes_on(run_id, f"waits for a person ({asked})", has_schema=has_schema)
