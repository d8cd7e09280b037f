from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from teamwright.journal import MemoryJournal
from tests.kit.server import serving

LIBRARY = re.compile(
    r"Input should|String should|List should|Field required|Value error|Extra inputs|JSON decode error"
)
"""How pydantic and FastAPI word what is wrong."""
JSON = {"Content-Type": "application/json"}
WRONG: tuple[Any, ...] = (-1, 1.5, "x" * 20_000, "", "a\0b", None, True, [], [5], {}, {"x": 1})


async def test_whatever_is_wrong_with_a_request_is_said_in_our_words(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("admin")
        document = (await client.get("/api/openapi.json")).json()
        asked = 0
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                at = re.sub(r"\{\w+\}", "none", path)
                bodies = _bodies(operation, document)
                names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
                calls: list[dict[str, Any]] = [{"json": body} for body in bodies]
                calls += [{"params": {name: "?"}} for name in names]
                calls += [{"content": b"{"}] if bodies else []
                for call in calls:
                    answer = await client.request(method, at, **call, headers=JSON)
                    if answer.status_code == 422:
                        asked += 1
                        assert not LIBRARY.search(answer.text), (method, path, call, answer.text)
                        assert answer.json()["error"]["message"]
        assert asked > 60


async def test_what_is_wrong_is_said_by_its_path_in_the_body(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("admin")
        task = {"team": "pair", "task": "Go"}
        for body, fields in (
            (task | {"limits": {"tokens": -5}}, {"limits.tokens": "must be at least 0, and -5 is not"}),
            (task | {"limits": {"usd": "much"}}, {"limits.usd": "expects a number, found the text 'much'"}),
            (task | {"limits": {"token": 5}}, {"limits.token": "is not a field here"}),
            ({"team": "pair"}, {"task": "is missing"}),
        ):
            answer = await client.post("/api/runs", json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["fields"]) == (422, "invalid", fields)
            assert error["message"] == "; ".join(f"{at}: {text}" for at, text in fields.items())
        for body, text in ((b"{", "the body is not JSON"), (b"[]", "the body expects a mapping, found a list")):
            answer = await client.post("/api/runs", content=body, headers=JSON)
            assert (answer.status_code, answer.json()["error"]["message"]) == (422, text)


def _bodies(operation: dict[str, Any], document: dict[str, Any]) -> list[Any]:
    """A list, and bodies with a wrong value in each of their fields."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return []
    name = content["schema"].get("$ref", "").rpartition("/")[2]
    fields = document["components"]["schemas"].get(name, {}).get("properties", {})
    return [
        [],
        *({field: WRONG[place % len(WRONG)] for place, field in enumerate(fields, shift)} for shift in range(3)),
    ]
