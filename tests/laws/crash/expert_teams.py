"""Teams of the crash matrix with a coordinator of the optional package, which they name and never import."""

from __future__ import annotations

import json

from pydantic import JsonValue

from teamwright.agents.review import REVISION
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatRequest
from teamwright.values.limits import Limits
from tests.kit.ladders import ladder
from tests.laws.crash.http_members import http_member, http_members
from tests.laws.crash.mixed_teams import refusal

TEXT = "the text"
CITES: JsonValue = {"criteria": [{"id": "text", "contains": TEXT}]}


def expert(url: str) -> Team:
    """A planner that is sent its mistakes, a step that is revised, one that is retried and skipped, and the answer."""
    roles: dict[str, JsonValue] = {
        "writer": {"capabilities": "writing", "limits": Limits(calls=9).model_dump(exclude_unset=True)},
        "critic": {"agent": "bad"},
        "editor": {"agent": "z", "instructions": "Be short."},
    }
    options: dict[str, JsonValue] = {"roles": roles, "lead": "planner", "risk": "low", "evaluate": CITES}
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


def replanned(url: str) -> Team:
    """A step fails while another runs; the second plan fails too, and the third gives its reason once more first."""
    options: dict[str, JsonValue] = {"lead": "planner", "on_failure": ladder(0, replan=2)}
    members = http_members(url, "a bad z")
    return Team("replanned", members=members, helpers=http_members(url, "planner"), strategy="expert", options=options)


def plan_again(request: ChatRequest, times: int) -> str:
    """Plan by what stands in the prompt; the third plan repeats its reason until that is refused."""
    told = str(request.body["prompt"])
    if "plan again" not in told:
        return json.dumps({"steps": [_step("look", "a"), _step("ask", "bad"), _step("tell", "z", "look", "ask")]})
    if "Reasons that were given before" not in told:
        return json.dumps({"reason": "it may be better", "steps": [_step("ask-2", "bad"), _step("tell", "z", "ask-2")]})
    reason = "z can ask" if "could not be used" in told else "It may be  better"
    return json.dumps({"reason": reason, "steps": [_step("ask-3", "z", "look")]})


def _step(id_: str, role: str, *needs: str) -> dict[str, JsonValue]:
    return {"id": id_, "role": role, "task": "Work.", "needs": list[JsonValue](needs)}


def draft(request: ChatRequest, times: int) -> str:
    """Answer with a draft, and with a text once it is reviewed."""
    return f"{TEXT if REVISION in str(request.body['prompt']) else 'a draft'} {request.digest}"


def dispatch(url: str) -> Team:
    """Three steps over a pool of which one member always fails, so that its steps go to others."""
    steps: list[JsonValue] = [{"id": "one"}, {"id": "two"}, {"id": "three", "needs": ["one", "two"]}]
    members = http_members(url, "bad a b")
    return Team("pool", members=members, strategy="dispatch", options={"steps": steps, "max_parallel": 2})


def react(url: str) -> Team:
    """A lead that decides on two steps at once, one of which is lost, then on one more, and answers in two rounds."""
    options: dict[str, JsonValue] = {"lead": "lead", "create_roles": True, "risk": "low", "evaluate": CITES}
    members = http_members(url, "a bad b")
    return Team("reacting", members=members, helpers=http_members(url, "lead"), strategy="react", options=options)


def decision(request: ChatRequest, times: int) -> str:
    """Decide by what stands in the prompt: the first steps, one with a new role, the answer."""
    told = str(request.body["prompt"])
    if "Decide what comes next" not in told:
        return draft(request, times)
    if "# look:" not in told:
        steps = [{"id": "look", "role": "a", "task": "Look."}, {"id": "ask", "role": "bad", "task": "Ask."}]
        return json.dumps({"action": "work", "steps": steps})
    if "# doubt:" not in told:
        new = {"id": "doubt", "role": "sceptic", "task": "Doubt.", "needs": ["look"], "instructions": "You doubt."}
        return json.dumps({"action": "work", "steps": [new]})
    return json.dumps({"action": "answer"})


SAYS = {"lead": decision, "b": draft, "planner": plan, "a": draft, "z": draft, "bad": refusal}
REPLANS = {"planner": plan_again, "bad": refusal}
