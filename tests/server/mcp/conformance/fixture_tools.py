"""The tools, prompts and resources that the conformance suite names, beside the teams."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from teamwright.server.mcp.team_server import Context

Json = dict[str, Any]
Fixture = Callable[[Context, Json], Awaitable[Json]]
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PICTURE: Json = {"type": "image", "data": IMAGE, "mimeType": "image/png"}
RESOURCES: dict[str, Json] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": IMAGE},
}
TEMPLATE = "test://template/{id}/data"
FIXTURES: dict[str, Fixture] = {}
OBJECT: Json = {"type": "object", "properties": {}}
SCHEMA_2020: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
SCHEMAS: dict[str, Json] = {
    "json_schema_2020_12_tool": SCHEMA_2020,
    "test_x_mcp_header": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
}
"""The schemas of tools that have one; the others take anything."""


def text(words: str, **more: Any) -> Json:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], "isError": False, **more}


def content(*blocks: Json) -> Json:
    return {"resultType": "complete", "content": list(blocks), "isError": False}


def embedded(uri: str, media_type: str, words: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": words}}


def fixture(function: Fixture) -> Fixture:
    FIXTURES[function.__name__] = function
    return function


def responses(params: Json) -> Json:
    found = params.get("inputResponses")
    return found if isinstance(found, dict) else {}


def form(message: str, **fields: str) -> Json:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sampling(words: str) -> Json:
    message = {"role": "user", "content": {"type": "text", "text": words}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 50}}


ROOTS: Json = {"method": "roots/list"}


def ask(state: str | None = None, **requests: Json) -> Json:
    found: Json = {"resultType": "input_required", "inputRequests": requests}
    return found if state is None else {**found, "requestState": state}


def given(params: Json, key: str, field: str) -> str:
    answered = responses(params).get(key)
    fields = answered.get("content") if isinstance(answered, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get(field), str):
        raise MCPError(INVALID_PARAMS, f"the response {key!r} has no text {field!r}")
    return fields[field]


@fixture
async def test_simple_text(context: Context, params: Json) -> Json:
    return text("This is a simple text response for testing.")


@fixture
async def test_image_content(context: Context, params: Json) -> Json:
    return content(PICTURE)


@fixture
async def test_audio_content(context: Context, params: Json) -> Json:
    return content({"type": "audio", "data": SOUND, "mimeType": "audio/wav"})


@fixture
async def test_embedded_resource(context: Context, params: Json) -> Json:
    return content(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@fixture
async def test_multiple_content_types(context: Context, params: Json) -> Json:
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}')
    return content({"type": "text", "text": "Multiple content types test:"}, PICTURE, mixed)


@fixture
async def test_error_handling(context: Context, params: Json) -> Json:
    return {**text("This tool intentionally returns an error for testing"), "isError": True}


@fixture
async def test_tool_with_progress(context: Context, params: Json) -> Json:
    for step in (0, 50, 100):
        await context.session.report_progress(step, 100, f"Completed step {step} of 100")
    return text("done")


@fixture
async def test_missing_capability(context: Context, params: Json) -> Json:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed: Json = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
    return text("sampling is declared")


@fixture
async def test_streaming_elicitation(context: Context, params: Json) -> Json:
    return ask(user_name=form("What is your name?", name="string"))


@fixture
async def test_logging_tool(context: Context, params: Json) -> Json:
    return text("a tool that has nothing to log")


@fixture
async def test_input_required_result_elicitation(context: Context, params: Json) -> Json:
    if "user_name" in responses(params):
        return text(f"Hello, {given(params, 'user_name', 'name')}!")
    return ask(user_name=form("What is your name?", name="string"))


@fixture
async def test_input_required_result_sampling(context: Context, params: Json) -> Json:
    if "capital_question" in responses(params):
        return text(f"The model said {json.dumps(responses(params)['capital_question'])}")
    return ask(capital_question=sampling("What is the capital of France?"))


@fixture
async def test_input_required_result_list_roots(context: Context, params: Json) -> Json:
    if "client_roots" in responses(params):
        return text(f"The roots are {json.dumps(responses(params)['client_roots'])}")
    return ask(client_roots=ROOTS)


@fixture
async def test_input_required_result_request_state(context: Context, params: Json) -> Json:
    if "confirm" in responses(params) and params.get("requestState") == "asked":
        return text("state-ok")
    return ask("asked", confirm=form("Please confirm", ok="boolean"))


@fixture
async def test_input_required_result_multiple_inputs(context: Context, params: Json) -> Json:
    if {"user_name", "greeting", "client_roots"} <= responses(params).keys():
        return text("All inputs received.")
    name = form("What is your name?", name="string")
    return ask("several", user_name=name, greeting=sampling("Generate a greeting"), client_roots=ROOTS)


@fixture
async def test_input_required_result_multi_round(context: Context, params: Json) -> Json:
    state, found = params.get("requestState"), responses(params)
    if state == "second" and "step2" in found:
        return text(f"The colour is {given(params, 'step2', 'color')}.")
    if state == "first" and "step1" in found:
        return ask("second", step2=form("Step 2: What is your favorite color?", color="string"))
    return ask("first", step1=form("Step 1: What is your name?", name="string"))


@fixture
async def test_input_required_result_tampered_state(context: Context, params: Json) -> Json:
    if params.get("requestState") == "sealed":
        return text("state-ok")
    return ask("sealed", confirm=form("Please confirm", ok="boolean"))


@fixture
async def test_input_required_result_capabilities(context: Context, params: Json) -> Json:
    declared = context.session.client_capabilities
    requests: dict[str, Json] = {}
    if declared is not None and declared.sampling is not None:
        requests["sample"] = sampling("Say hello")
    if declared is not None and declared.elicitation is not None:
        requests["ask"] = form("What is your name?", name="string")
    return ask("declared", **requests)


@fixture
async def json_schema_2020_12_tool(context: Context, params: Json) -> Json:
    return text("its schema counts")


@fixture
async def test_x_mcp_header(context: Context, params: Json) -> Json:
    return text(f"region={(params.get('arguments') or {}).get('region')}")


@fixture
async def greet(context: Context, params: Json) -> Json:
    return text(f"Hello, {(params.get('arguments') or {}).get('name', 'World')}!")


def _prompt(name: str, *arguments: str) -> Json:
    return {
        "name": name,
        "description": f"The prompt {name} of the suite.",
        "arguments": [{"name": one, "required": True} for one in arguments],
    }


PROMPTS = [
    _prompt("test_simple_prompt"),
    _prompt("test_prompt_with_arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "resourceUri"),
    _prompt("test_prompt_with_image"),
    _prompt("test_input_required_result_prompt"),
]


def _message(block: Json | str) -> Json:
    return {"role": "user", "content": {"type": "text", "text": block} if isinstance(block, str) else block}


def prompt(name: str, arguments: Mapping[str, str], params: Json) -> Json:
    """Return a prompt that the suite names."""
    blocks: list[Json | str]
    match name:
        case "test_simple_prompt":
            blocks = ["This is a simple prompt for testing."]
        case "test_prompt_with_arguments":
            blocks = [f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"]
        case "test_prompt_with_embedded_resource":
            blocks = [embedded(arguments["resourceUri"], "text/plain", "Embedded content."), "Please process it."]
        case "test_prompt_with_image":
            blocks = [PICTURE, "Please look at it."]
        case "test_input_required_result_prompt":
            if "user_context" not in responses(params):
                return ask(user_context=form("Which context?", context="string"))
            blocks = [f"Use this context: {given(params, 'user_context', 'context')}"]
        case _:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {name!r}")
    return {"resultType": "complete", "messages": [_message(block) for block in blocks]}


def resource(uri: str) -> Json | None:
    """Return the contents of a resource that the suite names."""
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        id_ = uri[len(before) : -len(after)]
        data = {"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    found = RESOURCES.get(uri)
    return None if found is None else {"uri": uri, **found}
