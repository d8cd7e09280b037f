"""The OpenAPI document, and requests that Schemathesis makes from it: no 500, and nothing that is not described."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from teamwright.journal import MemoryJournal
from tests.kit.server import TestServer, serving
from tests.profiles import sampled

ERRORS = ("400", "401", "403", "408", "413", "421", "422", "429", "503")
EXAMPLES = 3
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example)


async def document(server: TestServer) -> dict[str, Any]:
    return (await server.client("read").get("/api/openapi.json")).json()


async def test_every_error_of_every_operation_is_described(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        found = await document(server)
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            described = operation["responses"]
            assert not [code for code in ERRORS if code not in described], (method, path)
            if "{run_id}" in path:
                assert "404" in described, (method, path)
            for code in ERRORS:
                schema = described[code]["content"]["application/json"]["schema"]
                is_a2a = path.startswith("/a2a/") and not path.endswith("/agent-card.json")
                of_protocol = {"/ProtocolErrorBody": is_a2a, "/RpcErrorBody": (path, method) == ("/mcp", "post")}
                form = next((one for one, is_it in of_protocol.items() if is_it and code == "400"), "/ErrorBody")
                assert schema["$ref"].endswith(form), (method, path, code)
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)


@pytest.mark.timeout(180)
async def test_what_schemathesis_sends_is_answered_as_described(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        for run_id in ("one", "two"):
            started = await server.client("run").post(
                "/api/runs", json={"team": "pair" if run_id == "one" else "gated", "task": "Go", "run_id": run_id}
            )
            assert started.status_code == 201
        token = server.token("admin")
        found = await document(server)
        await anyio.to_thread.run_sync(check_all, found, server.url, token, abandon_on_cancel=False)


def check_all(document: dict[str, Any], url: str, token: str) -> None:
    """Send a bounded sample for each operation, fitting and not, and check each answer."""
    schema = schemathesis.openapi.from_dict(with_known_names(document))
    found = list(schema.exclude(path_regex=r"/stream$|^/api/session$").get_all_operations())
    for result in found[:: sampled(3, 1)]:
        for mode in GenerationMode:
            check(cast("Any", result).ok(), mode, url, token)


def with_known_names(document: dict[str, Any]) -> dict[str, Any]:
    """Let the generator use runs and teams that exist: most of what can break is behind a name that is found."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            for name, field in schemas.get(body.get("$ref", "").rpartition("/")[2], {}).get("properties", {}).items():
                if names := NAMES.get(name):
                    field |= {"enum": names}
            for parameter in operation.get("parameters", ()):
                if names := NAMES.get(parameter["name"]):
                    parameter["schema"] = {"type": "string", "enum": names}
    return document


NAMES = {
    "run_id": ["one", "two", "none"],
    "team": ["pair", "gated"],
    "model": ["pair"],
    "member": ["a", "b"],
    "key": ["gated/step-2", "pair/step-1"],
}


def check(operation: Any, mode: GenerationMode, url: str, token: str) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=SLOW)
    def send(case: Any) -> None:
        response = case.call(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20)
        assert not re.search(r"Traceback|File \"/", response.text)
        if response.status_code not in (404, 405):  # an address that the generator made of nothing
            case.validate_response(response, checks=CHECKS)
        assert response.status_code < 500 or response.status_code == 503, response.text

    try:
        send()
    except Unsatisfiable:  # nothing can be wrong about it
        return


CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
