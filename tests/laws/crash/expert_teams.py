"""Teams of the crash matrix with a coordinator of the optional package, which they name and never import."""

from __future__ import annotations

import json

from pydantic import JsonValue

from teamwright.agents.evaluators.gate import REVISE
from teamwright.teams.team import Team
from teamwright.testing.chat import ChatRequest
from teamwright.values.limits.limits import Limits
from tests.laws.crash.http_members import http_member, http_members
from tests.laws.crash.mixed_teams import refusal

TEXT = "the text"
CITES: JsonValue = {"criteria": [{"id": "text", "contains": TEXT}]}


def expert(url: str) -> Team:
    """A planner that is sent its mistakes, a step that is revised, one that is retried and skipped, and the answer."""
    roles: dict[str, JsonValue] = {
        "writer": {"capability": "writing", "limits": Limits(calls=9).model_dump(exclude_unset=True)},
        "critic": {"agent": "bad"},
        "editor": {"agent": "z", "instructions": "Be short."},
    }
    options: dict[str, JsonValue] = {"roles": roles, "planner": "planner", "risk": "low", "evaluate": CITES}
    members = [http_member(url, "a", capabilities=("writing",)), *http_members(url, "bad z")]
    return Team("experts", members=members, helpers=http_members(url, "planner"), strategy="expert", options=options)


def plan(request: ChatRequest, times: int) -> str:
    """Name a role that does not exist, and plan again without it."""
    role = "writer" if "could not be used" in str(request.body["prompt"]) else "poet"
    steps = [
        {"id": "draft", "role": role, "task": "Write."},
        {"id": "check", "role": "critic", "task": "Check."},
        {"id": "edit", "role": "editor", "task": "Edit.", "needs": ["draft", "check"]},
    ]
    return json.dumps({"steps": steps})


def draft(request: ChatRequest, times: int) -> str:
    """Answer with a draft, and with a text once it is reviewed."""
    return f"{TEXT if REVISE in str(request.body['prompt']) else 'a draft'} {request.digest}"


def dispatch(url: str) -> Team:
    """Three steps over a pool of which one member always fails, so that its steps go to others."""
    steps: list[JsonValue] = [{"id": "one"}, {"id": "two"}, {"id": "three", "needs": ["one", "two"]}]
    members = http_members(url, "bad a b")
    return Team("pool", members=members, strategy="dispatch", options={"steps": steps, "max_parallel": 2})


SAYS = {"planner": plan, "a": draft, "z": draft, "bad": refusal}
