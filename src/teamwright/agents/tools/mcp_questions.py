"""What an MCP server asks in the middle of a call, as questions to a person, and their answers as its input responses.

A response must only contain what a person has answered; what a server wants of a model or of this machine (sampling,
roots) is refused. Nothing here imports the protocol's library or reaches the server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any, cast

from pydantic import JsonValue

from teamwright.errors import ToolError
from teamwright.values.names import is_web_address
from teamwright.values.people import EDIT, NO, REJECT, YES, Answer, Question, approval_question

Json = dict[str, Any]
ELICIT = "elicitation/create"
ACCEPT, DECLINE = "accept", "decline"
MOST_REQUESTS = 20
"""How much one result of a server may ask."""
MOST_FIELDS = 50
"""How many fields the form of one request may have."""
MOST_ROUNDS = 20
"""How often a server may ask for more in one call."""
LONGEST_MESSAGE = 4000


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What a server has asked in a call, and what people have answered: all that the call needs to go on.

    `requests` are those of the present round, `responses` the answers to some of them, and `state` is the text that the
    server wants back with the answers. `said` are requests and responses of the rounds before.
    """

    requests: Mapping[str, Json] = field(default_factory=dict[str, Json])
    responses: Mapping[str, Json] = field(default_factory=dict[str, Json])
    state: str | None = None
    rounds: int = 0
    said: Sequence[tuple[Json, Json]] = ()
    again: Sequence[tuple[Json, Json]] = ()
    """What was said before a server refused to go on, so that the call began again."""

    def to_json(self) -> JsonValue:
        """Return the dialogue for the record."""
        return cast("JsonValue", asdict(self))

    @classmethod
    def of(cls, recorded: JsonValue) -> Dialogue:
        """Return the dialogue that a record has."""
        return cls(**cast("Json", recorded))

    @property
    def waiting(self) -> list[str]:
        """The keys of the requests without a response."""
        return [key for key in self.requests if key not in self.responses]

    def ask(self, result: Json, server: str) -> Dialogue:
        """Begin the round that a result asks for; raises `ToolError` for one that no person can answer.

        What a person has answered before the call began again is not asked twice.
        """
        if self.rounds >= MOST_ROUNDS:
            raise ToolError(f"The MCP server {server!r} asked more than {MOST_ROUNDS} times during one call.")
        requests: dict[str, Json] = result.get("inputRequests") or {}
        if len(requests) > MOST_REQUESTS:
            raise ToolError(
                f"The MCP server {server!r} asked {len(requests)} questions at once; {MOST_REQUESTS} may be."
            )
        said = (*self.said, *((self.requests[key], self.responses[key]) for key in self.requests))
        responses: dict[str, Json] = {}
        again = list(self.again)
        for key, request in requests.items():
            question_of(server, request)
            known = next((one for one in again if one[0] == request), None)
            if known is not None:
                again.remove(known)
                responses[key] = known[1]
        return Dialogue(requests, responses, result.get("requestState"), self.rounds + 1, said, again)

    def restarted(self) -> Dialogue:
        """Begin again without the state, with all answers at hand."""
        said = (*self.said, *((self.requests[key], self.responses[key]) for key in self.requests))
        return Dialogue(rounds=self.rounds, again=said)

    def questions(self, server: str, problems: Mapping[str, str]) -> tuple[Question, ...]:
        """Return the questions without a response, with what was wrong about an answer to them."""
        return tuple(question_of(server, self.requests[key], problems.get(key, "")) for key in self.waiting)

    def answered(self, answers: Sequence[Answer]) -> tuple[Dialogue, dict[str, str]]:
        """Take the answers to the questions that waited; return what is wrong about them too, by key of the request."""
        responses, problems = dict(self.responses), dict[str, str]()
        for key, answer in zip(self.waiting, answers, strict=True):
            try:
                responses[key] = response_of(self.requests[key], answer)
            except ToolError as error:
                problems[key] = str(error)
        return replace(self, responses=responses), problems


def question_of(server: str, request: Json, problem: str = "") -> Question:
    """Return what a server asks as a question to a person; raises `ToolError` for what no person can answer."""
    params: Json = request.get("params") or {}
    form = request.get("method")
    if form != ELICIT:
        raise ToolError(f"The MCP server {server!r} asked for {form!r}, which is refused: only people are asked.")
    text = f"The MCP server {server!r} asks: {str(params.get('message', ''))[:LONGEST_MESSAGE]}"
    if params.get("mode") == "url":
        question = _address_question(server, text, str(params.get("url")))
    else:
        question = _form_question(server, text, _fields(params))
    if not problem:
        return question
    return question.changed(text=f"{question.text} (The last answer can't be used: {problem})")


def response_of(request: Json, answer: Answer) -> Json:
    """Return the input response that an answer is; raises `ToolError` for one that does not fit the request."""
    params: Json = request["params"]
    fields = {} if params.get("mode") == "url" else _fields(params)
    match list(fields.items()):
        case []:
            return {"action": ACCEPT if answer.text == ACCEPT else DECLINE}
        case [(name, schema)] if not _is_list(schema):
            return _one_field(name, schema, answer, is_needed=name in _needed(params))
        case _:
            return _several_fields(fields, _needed(params), answer)


def _address_question(server: str, text: str, url: str) -> Question:
    if "${" in url or not is_web_address(url):
        raise ToolError(f"The MCP server {server!r} asked a person to open what is no web address.")
    return Question(
        text=f"{text}\n\nIt wants you to open {url} yourself, and to say so here.", choices=(ACCEPT, DECLINE)
    )


def _form_question(server: str, text: str, fields: Mapping[str, Json]) -> Question:
    if len(fields) > MOST_FIELDS:
        raise ToolError(f"The MCP server {server!r} asked for {len(fields)} fields at once; {MOST_FIELDS} may be.")
    about = "".join(f"\n\n{name}: {_description(schema)}" for name, schema in fields.items())[:LONGEST_MESSAGE]
    match list(fields.values()):
        case []:
            return Question(text=text, choices=(ACCEPT, DECLINE))
        case [schema] if not _is_list(schema):
            if choices := _choices(schema):
                return Question(text=f"{text}{about}", choices=(*choices, _refusal(choices)))
            return Question(text=f"{text}{about}\n\nThe answer {DECLINE!r} refuses.")
        case _:
            draft = {name: schema.get("default") for name, schema in fields.items()}
            return approval_question(f"{text}{about}", json.dumps(draft, indent=2, ensure_ascii=False), form="json")


def _one_field(name: str, schema: Json, answer: Answer, *, is_needed: bool) -> Json:
    choices = _choices(schema)
    if answer.text == _refusal(choices):
        return {"action": DECLINE}
    if not answer.text and not is_needed:
        return {"action": ACCEPT, "content": {}}
    value: JsonValue = answer.text
    if schema.get("type") == "boolean":
        value = answer.text == YES
    elif schema.get("type") in ("integer", "number"):
        value = _number(answer.text)
    _check(name, schema, value)
    return {"action": ACCEPT, "content": {name: value}}


def _several_fields(fields: Mapping[str, Json], needed: Sequence[str], answer: Answer) -> Json:
    if answer.text == REJECT:
        return {"action": DECLINE}
    draft = {name: schema.get("default") for name, schema in fields.items()}
    given = cast("Json", answer.data if answer.text == EDIT else draft)
    content = {name: value for name, value in given.items() if value is not None}
    if unknown := [name for name in content if name not in fields]:
        raise ToolError(f"{unknown[0]!r:.100} is no field of it")
    if missing := [name for name in needed if name not in content]:
        raise ToolError(f"{missing[0]!r:.100} is missing")
    for name, value in content.items():
        _check(name, fields[name], value)
    return {"action": ACCEPT, "content": content}


def _check(name: str, schema: Json, value: JsonValue) -> None:
    """Raise `ToolError` if a value is not of the type of its field; the server checks what else it wants."""
    match schema.get("type"):
        case "boolean":
            fits = isinstance(value, bool)
        case "integer":
            fits = isinstance(value, int) and not isinstance(value, bool)
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        case "array":
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
        case _:
            choices = _choices(schema)
            fits = isinstance(value, str) and (not choices or value in choices)
    if not fits:
        raise ToolError(f"{name!r:.100} has to be {_description(schema)[:LONGEST_MESSAGE]}")


def _number(text: str) -> JsonValue:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return text


def _fields(params: Json) -> dict[str, Json]:
    schema: Json = params.get("requestedSchema") or {}
    found = schema.get("properties")
    properties = cast("Json", found) if isinstance(found, dict) else {}
    return {name: cast("Json", one) if isinstance(one, dict) else {} for name, one in properties.items()}


def _needed(params: Json) -> list[str]:
    schema: Json = params.get("requestedSchema") or {}
    found: object = schema.get("required")
    return [one for one in cast("list[object]", found) if isinstance(one, str)] if isinstance(found, list) else []


def _is_list(schema: Json) -> bool:
    return schema.get("type") == "array"


def _choices(schema: Json) -> tuple[str, ...]:
    """Return the values that a field may have, of those that have some."""
    if schema.get("type") == "boolean":
        return (YES, NO)
    if _is_list(schema):
        items = schema.get("items")
        return _choices(cast("Json", items)) if isinstance(items, dict) else ()
    found: object = schema.get("enum")
    if found is None:
        titled: object = schema.get("oneOf") or schema.get("anyOf") or ()
        listed = cast("list[object]", titled) if isinstance(titled, list) else []
        found = [cast("Json", one).get("const") for one in listed if isinstance(one, dict)]
    values = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(dict.fromkeys(one for one in values if isinstance(one, str)))


def _refusal(choices: Sequence[str]) -> str:
    """Return the answer that declines, which is not among the choices."""
    return DECLINE if DECLINE not in choices else f"{DECLINE} to answer"


def _description(schema: Json) -> str:
    """Return the type of a field, its values and what the server says about it."""
    words = [str(schema.get("type", "string"))]
    if choices := _choices(schema):
        words.append(f"of {', '.join(choices)}" if _is_list(schema) else f"({', '.join(choices)})")
    said = [str(schema[name]) for name in ("title", "description") if isinstance(schema.get(name), str)]
    return ", ".join([" ".join(words), *said])
