"""Checks that what is declared fits together: names that exist, no cycles, and the rules of each strategy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import cast

from pydantic import JsonValue

from teamwright.teams.manifest.declared import Declaration, Declared
from teamwright.teams.manifest.nodes import Fields, Items, Node, Place, Scalar, plain, shown
from teamwright.teams.manifest.report import Report
from teamwright.teams.manifest.schema import IMPORT_PATH
from teamwright.values.names import plain_strategy_name
from teamwright.values.specs import TERMINATE

MODEL = re.compile(r"local|(?:local|scripted):\S.*|[a-z][a-z0-9_.-]*:\S+")
WEB_ADDRESS = re.compile(r"https?://\S+")
ANSWERERS = ("model", "function", "scripted")
DEFAULT_MODELS = ("primary", "default")
OTHER_FILE = "another file may declare it: add it with  --with FILE"


def check(declared: Declared, strategies: Collection[str], report: Report, *, models_replaced: bool) -> None:
    """Note everything that does not fit together; models that are about to be replaced need not be there."""
    for agent in declared.every("agent"):
        _check_agent(agent, declared, report)
    if not report.incomplete and not models_replaced:
        _check_answered(declared, report)
    for team in declared.every("team"):
        _check_team(team, declared, strategies, report)
    for model in declared.every("model"):
        _check_model(model, report)
    for tool in declared.every("tool"):
        _check_tool(tool.fields, tool.words, report)
    _check_cycles(declared, report)
    _check_queries(declared, report)


def default_model(declared: Declared) -> str | None:
    """The model of an agent that names none: `primary`, else `default`, else the only one."""
    for name in DEFAULT_MODELS:
        if name in declared.models:
            return name
    return next(iter(declared.models)) if len(declared.models) == 1 else None


def _check_agent(agent: Declaration, declared: Declared, report: Report) -> None:
    fields = agent.fields
    given = [name for name in ANSWERERS if fields.has(name)]
    if len(given) > 1:
        words = " and ".join(shown(name) for name in given)
        report.problem(fields.key_place(given[1]), f"{agent.words} has {words}", "keep one: it says who answers")
    if function := fields.text("function"):
        _check_import_path(function, agent.words, report)
    model = fields.get("model")
    if isinstance(model, Fields):
        _check_server(model, agent.words, report)
    elif isinstance(model, Scalar) and isinstance(model.value, str):
        _check_model_name(model, agent, declared, report)
    if scripted := fields.text("scripted"):
        _check_replies(str(scripted.value), scripted.place, agent, report)
    _check_tools(agent, declared, report)
    for name in ("input_schema", "output_schema"):
        _check_json_schema(agent, name, report)


def _check_answered(declared: Declared, report: Report) -> None:
    """Each agent has somebody to answer. In ARK the cluster may have the model, so there it is only a warning."""
    missing: dict[str, list[Declaration]] = {}
    for agent in declared.every("agent"):
        written = agent.fields.text("model")
        given = not isinstance(agent.node, Fields) or any(agent.fields.has(name) for name in ANSWERERS)
        if agent.ark and written and written.value not in declared.models:
            missing.setdefault(str(written.value), []).append(agent)
        elif not given and default_model(declared) is None and agent.ark:
            missing.setdefault("default", []).append(agent)
        elif not given and default_model(declared) is None:
            known = f"; the models are {', '.join(declared.models)}" if declared.models else ""
            hint = f"give it a model, function or scripted{known}"
            report.problem(agent.place, f"{agent.words} has nobody to answer", hint)
    for name, agents in missing.items():
        who = ", ".join(shown(agent.name) for agent in agents[:8]) + (" …" if len(agents) > 8 else "")
        message = f"No file declares the model {shown(name)}, which {who} would use"
        report.warning(agents[0].place, message, "declare it, or give one with  --model")


def _check_model_name(model: Scalar, agent: Declaration, declared: Declared, report: Report) -> None:
    name = str(model.value)
    if name in declared.models or "${" in name or report.incomplete or agent.ark:
        return
    if MODEL.fullmatch(name):
        _check_scripted_model(name, model.place, agent, report)
    else:
        hint = report.near(name, declared.models) if declared.models else "write provider:name, local or scripted:FILE"
        report.problem(model.place, f"{agent.words}: there is no model {shown(name)}", hint)


def _check_model(model: Declaration, report: Report) -> None:
    node = model.node
    if isinstance(node, Fields):
        _check_server(node, model.words, report)
    elif isinstance(node, Scalar) and isinstance(node.value, str) and "${" not in node.value:
        if MODEL.fullmatch(node.value):
            _check_scripted_model(node.value, node.place, model, report)
        else:
            report.problem(
                node.place,
                f"{model.words}: {shown(node.value)} is not a model",
                "write provider:name, local, local:FILE, scripted:FILE, or {url: …, name: …}",
            )


def _check_server(fields: Fields, owner: str, report: Report) -> None:
    url = fields.text("url")
    if url and "${" not in str(url.value) and not WEB_ADDRESS.fullmatch(str(url.value)):
        hint = "write it in full, for example http://localhost:8000/v1"
        report.problem(url.place, f"{owner}: {shown(str(url.value))} is not an http address", hint)
    key = fields.text("api_key")
    if key and "${" not in str(key.value):
        report.warning(
            key.place,
            f"{owner}: the key is written in the file, and no record of a run keeps it",
            "write ${NAME} to read it from the environment",
        )


def _check_scripted_model(name: str, place: Place, owner: Declaration, report: Report) -> None:
    if name.startswith("scripted:"):
        _check_replies(name.removeprefix("scripted:"), place, owner, report)


def _check_replies(file: str, place: Place, owner: Declaration, report: Report) -> None:
    if "${" in file:
        return
    try:
        there = (owner.folder / file).is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        hint = f"it is looked for in {owner.folder}"
        report.problem(place, f"{owner.words}: there is no file {shown(file)} of scripted replies", hint)


def _check_import_path(function: Scalar, owner: str, report: Report) -> None:
    path = str(function.value)
    if "${" not in path and not re.fullmatch(IMPORT_PATH, path):
        hint = "write module:function"
        if re.fullmatch(r"[^\W\d][\w.]*\.[^\W\d]\w*", path):
            hint = f"write {':'.join(path.rsplit('.', 1))}"
        report.problem(function.place, f"{owner}: {shown(path)} is not an import path", hint)


def _check_tools(agent: Declaration, declared: Declared, report: Report) -> None:
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        if isinstance(item, Fields):
            _check_tool(item, agent.words, report)
    for name, place in agent.fields.texts("tools"):
        if name not in declared.tools and name != TERMINATE and not report.incomplete:
            hint = report.near(name, [*declared.tools, TERMINATE])
            report.problem(place, f"{agent.words}: there is no tool {shown(name)}", hint)


def _check_tool(fields: Fields, owner: str, report: Report) -> None:
    if function := fields.text("function"):
        _check_import_path(function, owner, report)
    server = fields.get("mcp")
    if not isinstance(server, Fields):
        return
    if server.has("command") == server.has("url"):
        report.problem(server.place, f"{owner}: an MCP server needs either 'command' or 'url'", "give one of them")
    for name, needs in (("args", "command"), ("env", "command"), ("headers", "url")):
        if server.has(name) and not server.has(needs):
            report.problem(server.key_place(name), f"{owner}: {name!r} goes with {needs!r}, which is not there")
    url = server.text("url")
    if url and "${" not in str(url.value) and not WEB_ADDRESS.fullmatch(str(url.value)):
        report.problem(url.place, f"{owner}: {shown(str(url.value))} is not an http address")


def _check_json_schema(owner: Declaration, name: str, report: Report) -> None:
    node = owner.fields.get(name)
    if not isinstance(node, Fields):
        return
    from jsonschema import Draft202012Validator, SchemaError

    schema = cast("dict[str, JsonValue]", plain(node))
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        message = f"{owner.words}: {name!r} is not a JSON Schema: {error.message[:200]}"
        report.problem(_place_of(node, error.absolute_path), message)


def _place_of(node: Node, path: Iterable[str | int]) -> Place:
    """Where the value at `path` stands."""
    for step in path:
        if isinstance(node, Fields) and step in node.entries:
            node = node.entries[str(step)].node
        elif isinstance(node, Items) and isinstance(step, int):
            node = node.items[step]
    return node.place


def _check_team(team: Declaration, declared: Declared, strategies: Collection[str], report: Report) -> None:
    fields = team.fields
    strategy = _check_strategy(team, strategies, report)
    _check_members(team, strategy, declared, report)
    if strategy == "round_robin" and not fields.has("max_turns") and not _can_terminate(team, declared):
        spelling = "maxTurns" if team.ark else "max_turns"
        report.problem(
            fields.key_place("strategy"),
            f"{team.words}: round_robin needs {spelling!r}, the number of rounds",
            f"or give a member the tool {TERMINATE!r}",
        )
    if strategy == "sequential":
        for name in ("max_turns", "options"):
            if fields.has(name):
                entry = fields.entries[name]
                report.warning(entry.place, f"{team.words}: {entry.key!r} changes nothing in a sequential team")
    _check_json_schema(team, "output_schema", report)


def _check_strategy(team: Declaration, strategies: Collection[str], report: Report) -> str:
    written = team.fields.text("strategy")
    if written is None:
        return "sequential"
    name = plain_strategy_name(str(written.value))
    known = sorted(plain_strategy_name(one) for one in strategies)
    if name not in known:
        words = f"{team.words}: there is no strategy {shown(str(written.value))}; known are {', '.join(known)}"
        report.problem(written.place, words, report.near(name, known, "choose one of them"))
    return name


def _check_members(team: Declaration, strategy: str, declared: Declared, report: Report) -> None:
    seen: set[str] = set()
    for name, place in team.fields.texts("members"):
        if name in seen and strategy != "sequential":
            report.problem(
                place,
                f"{team.words}: {shown(name)} is a member twice",
                "only a sequential team may list one member several times",
            )
        seen.add(name)
        wanted = declared.typed.get(place)
        _check_reference(name, place, wanted.kind if wanted else "", team.words, declared, report)


def _check_reference(name: str, place: Place, kind: str, owner: str, declared: Declared, report: Report) -> None:
    found = "agent" if name in declared.agents else "team" if name in declared.teams else ""
    if not found:
        if not report.incomplete:
            hint = report.near(name, [*declared.agents, *declared.teams], OTHER_FILE)
            hint = hint if OTHER_FILE in hint else f"{hint} Or {OTHER_FILE}" if hint else OTHER_FILE
            report.problem(place, f"{owner}: there is no {kind or 'agent or team'} {shown(name)}", hint)
    elif kind and kind != found:
        report.problem(place, f"{owner}: {shown(name)} is of type {found!r}, not {kind!r}", f"write  type: {found}")


def _can_terminate(team: Declaration, declared: Declared) -> bool:
    members = (declared.agents.get(name) for name, _ in team.fields.texts("members"))
    return any(tool == TERMINATE for member in members if member for tool, _ in member.fields.texts("tools"))


def _check_cycles(declared: Declared, report: Report) -> None:
    """Walk the teams depth first, without recursion; each way back onto the path is a cycle."""
    done: set[str] = set()
    for start in declared.teams:
        path = {start: _members(start, declared)} if start not in done else {}
        while path:
            name = next(reversed(path))
            member, place = next(path[name], ("", None))
            if place is None:
                done.add(name)
                del path[name]
            elif member in path:
                names = list(path)
                cycle = [*names[names.index(member) :], member]
                report.problem(place, f"{_cycle_words(cycle)}: {' → '.join(cycle)}", "take one of the members out")
            elif member in declared.teams and member not in done:
                path[member] = _members(member, declared)


def _members(team: str, declared: Declared) -> Iterator[tuple[str, Place]]:
    return declared.teams[team].fields.texts("members")


def _cycle_words(cycle: list[str]) -> str:
    return f"team {shown(cycle[0])} is a member of itself" if len(cycle) == 2 else "Teams contain each other"


def _check_queries(declared: Declared, report: Report) -> None:
    for query in declared.queries.values():
        if query.target:
            kind = query.target_kind
            _check_reference(query.target, query.place, kind, f"query {shown(query.name)}", declared, report)
