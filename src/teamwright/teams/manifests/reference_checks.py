"""Checks agents, models, tools and queries: their fields, and the names that they refer to.

Teams are checked in `checks.teams`. A kind of agent uses what its class takes in Python, and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.acp_agent import TOOL_KINDS, AcpAgent
from teamwright.agents.attachments import check_file
from teamwright.agents.clients.providers import MODEL, provider_hint, unknown_provider
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.instructions import NAMES
from teamwright.agents.json_schema import schema_fault
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.settings import AgentKeywords, ModelKeywords
from teamwright.agents.tools.registry import OWN, AnyKind, built_in_names, find_kind, kinds_in
from teamwright.documents.nodes import Fields, Items, Node, Place, ProblemReport, Scalar, place_at, plain, shown
from teamwright.documents.reader import forward_slashes
from teamwright.documents.schema_check import SchemaCheck, check_import_path, check_secrets, check_web_address
from teamwright.errors import UsageError
from teamwright.strategies.expressions import Template
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.teams.manifests.evaluation_checks import (
    check_criteria,
    check_evaluation,
    check_judges,
    step_evaluations,
)
from teamwright.teams.manifests.team_checks import agent_named_in, check_reference, check_teams, inline_agents
from teamwright.values.people import signing_key
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.model_settings import MAX_TOKENS, settings_schema
from teamwright.values.specs.tools import TERMINATE
from teamwright.values.text.secrets import HIDDEN, is_written_out
from teamwright.values.text.validation_messages import misfits_of

KINDS = {"function": FunctionAgent, "a2a": FunctionAgent, "acp": AcpAgent, "model": ModelAgent}
NOUNS = {"function": "a function", "a2a": "a remote agent", "acp": "a coding agent", "model": "a model"}
KEYWORDS = {"function": AgentKeywords, "a2a": AgentKeywords, "acp": AgentKeywords, "model": ModelKeywords}

ELSEWHERE = frozenset(("function", "a2a", "acp", "model", "tools", "memory", "simulation"))
"""Fields that say what kind of agent it is, are checked by themselves, or are not for the agent itself."""

INLINE_MODELS = (("model",), ("economy",), ("stronger",), ("fallback", "model"))
"""Where an agent may declare a model in place."""


def check_unused_fields(agent: Declaration, report: ProblemReport) -> None:
    """Report fields that an agent of this kind does not use; a script takes those of the model that it stands for."""
    fields = agent.fields
    kind = next((name for name in KINDS if fields.has(name)), "model")
    unused = _unused_by(kind)
    for name in fields.entries:
        if name not in unused:
            continue
        hint = "check it in the function itself" if name == "check" else f"remove {name!r}"
        report.problem(fields.key_place(name), f"{agent.words} is {NOUNS[kind]}, which has no {name!r}", hint)
    if kind != "model":
        _check_tools(agent, kind, report)


def _check_tools(agent: Declaration, kind: str, report: ProblemReport) -> None:
    """Report tools and a memory of a function or a remote agent; it may be allowed to terminate."""
    fields = agent.fields
    if fields.has("memory"):
        report.problem(
            fields.key_place("memory"), f"{agent.words} is {NOUNS[kind]}, which has no 'memory'", "remove it"
        )
    tools = fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        if not isinstance(item, Scalar) or item.value != TERMINATE:
            hint = f"call it in the function itself; {TERMINATE!r} is the only one"
            report.problem(item.place, f"{agent.words} is {NOUNS[kind]}, which calls no tools", hint)


@cache
def _unused_by(kind: str) -> frozenset[str]:
    """The fields of an agent that the class of this kind does not take."""
    parameters = inspect.signature(KINDS[kind]).parameters.values()
    taken = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    return frozenset(AgentSpec.model_fields) - taken - KEYWORDS[kind].__optional_keys__ - ELSEWHERE


def check_model_settings(declared: Declarations, report: ProblemReport) -> None:
    """Report unknown settings, unsuitable values, and an output cap in the wrong place."""
    for one in declared.every("model"):
        _check_settings_node(one.node, one, report)
    for one in declared.every("agent"):
        _check_settings_node(one.node, one, report)
        settings = one.fields.get("settings")
        if isinstance(settings, Fields) and settings.has(MAX_TOKENS):
            message = f"{one.words}: {MAX_TOKENS!r} is a field of the agent"
            report.problem(settings.key_place(MAX_TOKENS), message, "write it beside 'settings'")
        for path in INLINE_MODELS:
            _check_settings_node(one.fields.get(*path), one, report)


def _check_settings_node(node: Node | None, owner: Declaration, report: ProblemReport) -> None:
    settings = node.get("settings") if isinstance(node, Fields) else None
    if not isinstance(node, Fields) or not isinstance(settings, Fields):
        return
    schema = _settings_schema()
    SchemaCheck(owner.words, report, cast("Mapping[str, JsonValue]", schema["$defs"])).check(settings, schema)
    check_secrets(settings.get("extra_headers"), "extra_headers", owner.words, report)


@cache
def _settings_schema() -> Mapping[str, JsonValue]:
    return settings_schema()


ANSWERERS = ("model", "function", "a2a", "acp")
DEFAULT_MODELS = ("primary", "default")


def check(declared: Declarations, report: ProblemReport, *, models_replaced: bool) -> None:
    """Report every problem; with `models_replaced`, agents need no model."""
    for agent in declared.every("agent"):
        _check_agent(agent, declared, report)
    if not report.incomplete and not models_replaced:
        _check_has_answerer(declared, report)
    for team in declared.every("team"):
        _check_json_schema(team, "output_schema", report)
        _check_fallback(team, declared, report)
        _check_optional_or_critical(team, report)
        check_evaluation(team, declared, report)
        for one in step_evaluations(team):
            check_criteria(one.node, one.words, report)
        _check_people(team, report)
        for file, place in team.fields.texts("attachments"):
            _check_attachment(file, place, team, report)
    check_teams(declared, report)
    if not models_replaced:
        check_judges(declared, report, default_model(declared))
    for model in declared.every("model"):
        _check_model(model.node, model, report)
    for tool in declared.every("tool"):
        _check_tool(tool.fields, tool.words, report)
        for name, place in agent_named_in(tool.node):
            check_reference(name, place, "", tool.words, declared, report)
    _check_queries(declared, report)


def default_model(declared: Declarations) -> str | None:
    """The model of an agent that names none: `primary`, else `default`, else the only one."""
    for name in DEFAULT_MODELS:
        if name in declared.models:
            return name
    return next(iter(declared.models)) if len(declared.models) == 1 else None


def _check_agent(agent: Declaration, declared: Declarations, report: ProblemReport) -> None:
    fields = agent.fields
    given = [name for name in ANSWERERS if fields.has(name)]
    if len(given) > 1:
        words = " and ".join(shown(name) for name in given)
        report.problem(fields.key_place(given[1]), f"{agent.words} has {words}", "keep one of them")
    if function := fields.text("function"):
        check_import_path(function, agent.words, report)
    check_secrets(fields.get("a2a", "headers"), "headers", agent.words, report)
    check_secrets(fields.get("acp", "env"), "env", agent.words, report)
    if (command := fields.text("acp", "command")) and not str(command.value).strip():
        report.problem(command.place, f"{agent.words}: the command is empty", "write the program and its arguments")
    _check_functions_around(agent, report)
    for path in INLINE_MODELS:
        model = fields.get(*path)
        if isinstance(model, Fields):
            _check_model(model, agent, report)
        elif isinstance(model, Scalar) and isinstance(model.value, str):
            _check_model_name(model, agent, declared, report)
    _check_named_tools(agent, declared, report)
    check_unused_fields(agent, report)
    _check_fallback(agent, declared, report)
    for name in ("input_schema", "output_schema"):
        _check_json_schema(agent, name, report)
    _check_optional_or_critical(agent, report)
    check_evaluation(agent, declared, report)
    _check_confirmed(agent, declared, report)


def functions_around(agent: Declaration) -> dict[str, Scalar]:
    """The import paths of an agent's instructions and guardrails, by field."""
    paths = {
        "instructions": ("instructions", "function"),
        "check.input": ("check", "input"),
        "check.output": ("check", "output"),
    }
    return {name: found for name, path in paths.items() if (found := agent.fields.text(*path)) is not None}


def _check_functions_around(agent: Declaration, report: ProblemReport) -> None:
    """Check the instructions and guardrails of an agent."""
    fields = agent.fields
    for path in functions_around(agent).values():
        check_import_path(path, agent.words, report)
    template = fields.text("instructions", "template")
    if template is not None and (problem := Template(str(template.value)).problem(NAMES)):
        report.problem(template.place, f"{agent.words}: {problem}", f"it can use {', '.join(NAMES)}")


def _check_confirmed(agent: Declaration, declared: Declarations, report: ProblemReport) -> None:
    """Report what a person can't confirm: an amount, and tools that are known to be missing."""
    given = agent.fields.get("confirm")
    if isinstance(given, Fields) and given.has("above"):
        report.problem(given.key_place("above"), f"{agent.words} is not run by itself", "set it for the team")
    wanted = given.get("tools") if isinstance(given, Fields) else None
    if wanted is None or (isinstance(wanted, Scalar) and wanted.value is not True):
        return
    if agent.fields.has("function"):
        report.problem(wanted.place, f"{agent.words} is a function, which has no tools to approve", "remove 'tools'")
        return
    known = dict.fromkeys(TOOL_KINDS) if agent.fields.has("acp") else _tool_names(agent, declared)
    for name, place in given.texts("tools") if isinstance(given, Fields) else ():
        if name == TERMINATE:
            report.problem(place, f"{agent.words}: {name!r} can't be approved", "approve its reply, with  after: true")
        elif known is not None and name not in known and not report.incomplete:
            report.problem(place, f"{agent.words} has no tool {shown(name)} to approve", report.near(name, known))


def _tool_names(agent: Declaration, declared: Declarations) -> dict[str, None] | None:
    """The names of an agent's tools; None if some are known only at run time."""
    names: list[str] = []
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        name = str(item.value) if isinstance(item, Scalar) else ""
        one = declared.tools.get(name)
        fields = one.fields if one else item
        known: Sequence[str] | None = [name] if name else []
        if isinstance(fields, Fields):
            for kind in kinds_in(fields.entries):
                known = find_kind(kind).tool_names(fields, name)
        elif name in built_in_names():
            known = [name, *(find_kind(name).tool_names(None, name) or ())]
        if known is None:
            return None
        names += known
    return dict.fromkeys(names)


def _check_fallback(owner: Declaration, declared: Declarations, report: ProblemReport) -> None:
    """Report a fallback that does not exist or is the owner itself."""
    name = owner.fields.text("fallback")
    if name is None:
        return
    if name.value == owner.name:
        report.problem(name.place, f"{owner.words} can't be its own fallback", "name another agent")
    else:
        check_reference(str(name.value), name.place, "", owner.words, declared, report)


def _check_has_answerer(declared: Declarations, report: ProblemReport) -> None:
    """Report agents without a model, function or script. For ARK it is a warning: the cluster may have the model."""
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
            hint = f"set model, function or scripted{known}"
            report.problem(agent.place, f"{agent.words} has no model", hint)
    for name, agents in missing.items():
        who = ", ".join(shown(agent.name) for agent in agents[:8]) + (" …" if len(agents) > 8 else "")
        message = f"No file declares the model {shown(name)}, which {who} would use"
        report.warning(agents[0].place, message, "declare it, or give one with  --model")


def _check_model_name(model: Scalar, agent: Declaration, declared: Declarations, report: ProblemReport) -> None:
    name = str(model.value)
    if name in declared.models or "${" in name or report.incomplete or agent.ark:
        return
    if MODEL.fullmatch(name):
        _check_provider(name, model.place, agent, report)
    else:
        hint = report.near(name, declared.models) if declared.models else "write provider:name, local or scripted:FILE"
        report.problem(model.place, f"{agent.words}: there is no model {shown(name)}", hint)


def _check_model(node: Node, owner: Declaration, report: ProblemReport) -> None:
    """Check an inline model: a name, or one of the long forms."""
    if isinstance(node, Fields):
        _check_server(node, owner.words, report)
    name = node.get("model") if isinstance(node, Fields) else node
    if isinstance(name, Scalar) and isinstance(name.value, str) and "${" not in name.value:
        if MODEL.fullmatch(name.value):
            _check_provider(name.value, name.place, owner, report)
        else:
            report.problem(
                name.place,
                f"{owner.words}: {shown(name.value)} is not a model",
                "write provider:name, local, local:FILE, scripted:FILE, or {url: …, name: …}",
            )


def _check_server(fields: Fields, owner: str, report: ProblemReport) -> None:
    hint = "write it in full, for example http://localhost:8000/v1"
    check_web_address(fields.text("url"), owner, report, hint)
    check_secrets(fields, "", owner, report)


def _check_provider(name: str, place: Place, owner: Declaration, report: ProblemReport) -> None:
    """Check that a model's provider is known, and that its script exists if it has one."""
    if name.startswith("scripted:"):
        _check_replies(name.removeprefix("scripted:"), place, owner, report)
    elif provider := unknown_provider(name):
        message = f"{owner.words}: there is no provider {shown(provider)} for the model {shown(name)}"
        report.problem(place, message, provider_hint(provider))


def _check_replies(file: str, place: Place, owner: Declaration, report: ProblemReport) -> None:
    if "${" in file:
        return
    try:
        exists = (owner.folder / file).is_file()
    except (OSError, ValueError):
        exists = False
    if not exists:
        hint = forward_slashes(file) or f"the folder is {owner.folder}"
        report.problem(place, f"{owner.words}: there is no file {shown(file)} of scripted replies", hint)


def _check_attachment(file: str, place: Place, owner: Declaration, report: ProblemReport) -> None:
    if "${" in file:
        return
    try:
        check_file(owner.folder / file)
    except UsageError as error:
        report.problem(place, f"{owner.words}: {error}", forward_slashes(file) or f"the folder is {owner.folder}")


def _check_named_tools(agent: Declaration, declared: Declarations, report: ProblemReport) -> None:
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        if isinstance(item, Fields):
            _check_tool(item, agent.words, report)
    for name, place in inline_agents(agent):
        check_reference(name, place, "", agent.words, declared, report)
    built_in = built_in_names()
    for name, place in agent.fields.texts("tools"):
        if name not in declared.tools and name not in built_in and not report.incomplete:
            hint = report.near(name, lambda: [*declared.tools, *built_in])
            report.problem(place, f"{agent.words}: there is no tool {shown(name)}", hint)


def _check_tool(fields: Fields, owner: str, report: ProblemReport) -> None:
    """Let each kind of tool check its settings; the schemas of our own kinds are checked already."""
    for name in kinds_in(fields.entries):
        kind = find_kind(name)
        if name not in OWN:
            _check_settings(fields.get(name), kind, owner, report)
        kind.check(fields, owner, report)


def _check_settings(node: Node | None, kind: AnyKind, owner: str, report: ProblemReport) -> None:
    if node is None:
        return
    value = plain(node)
    try:
        kind.model.model_validate(value)
    except ValidationError as error:
        for one in misfits_of(error, value):
            report.problem(place_at(node, one.at), f"{owner}: {one}")


def _check_json_schema(owner: Declaration, name: str, report: ProblemReport) -> None:
    node = owner.fields.get(name)
    if not isinstance(node, Fields):
        return
    if fault := schema_fault(cast("dict[str, JsonValue]", plain(node))):
        report.problem(place_at(node, fault.at), f"{owner.words}: {name!r} is not a JSON Schema: {fault.text}")


def _check_optional_or_critical(owner: Declaration, report: ProblemReport) -> None:
    given = [name for name in ("optional", "critical") if _is_true(owner.fields.get(name))]
    if len(given) == 2:
        hint = "keep one: a failure is skipped, or it pauses the run"
        report.problem(owner.fields.key_place(given[1]), f"{owner.words} is optional and critical", hint)


def _check_people(team: Declaration, report: ProblemReport) -> None:
    """Check a team's approvals and its webhook."""
    confirm, notify = team.fields.get("confirm"), team.fields.get("notify")
    if isinstance(confirm, Fields) and confirm.has("tools"):
        place = confirm.key_place("tools")
        report.problem(place, f"{team.words} has no tools of its own to approve", "set it for its members")
    check_secrets(notify, "notify", team.words, report)
    check_web_address(notify.text("webhook") if isinstance(notify, Fields) else None, team.words, report)
    secret = notify.text("secret") if isinstance(notify, Fields) else None
    if secret and is_written_out(str(secret.value)) and str(secret.value) != HIDDEN:
        try:
            signing_key(str(secret.value))
        except UsageError as error:
            report.problem(secret.place, f"{team.words}: {error}")


def _is_true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


def _check_queries(declared: Declarations, report: ProblemReport) -> None:
    for query in declared.queries.values():
        if query.target:
            kind = query.target_kind
            check_reference(query.target, query.place, kind, f"query {shown(query.name)}", declared, report)
