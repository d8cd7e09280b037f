"""Scripted models: replies from a YAML file of rules, so that whole teams run offline and deterministically.

Rules are tried from the top; the first that matches and is not used up answers. Uses are counted per agent and recorded
with each reply, so that neither a crash nor the order of branches changes which rule answers.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, Unpack, cast

import anyio
from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator
from pydantic_core import to_json

from teamwright.agents.agent import Agent, Context
from teamwright.agents.attachments import with_pointers
from teamwright.agents.constructor_arguments import Mistakes, check_instance, checked_call, listed
from teamwright.agents.effect import (
    Attempt,
    Effect,
    OfferedTool,
    Returned,
    SentMessage,
    SentRequest,
)
from teamwright.agents.functions.instructions import Checks, make_guardrails
from teamwright.agents.json_schema import check_input, with_data
from teamwright.agents.prices import rate_of
from teamwright.agents.prompt_notices import low_budget_notice
from teamwright.agents.settings import AgentKeywords, shared_settings
from teamwright.agents.tools.built_in import final_response, transfer_message
from teamwright.agents.tools.protocol import Arguments
from teamwright.agents.tools.registry import ToolLike
from teamwright.agents.tools.toolbox import Toolbox, Tools
from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    described,
    place_at,
    plain,
    shown,
    sort_problems,
)
from teamwright.documents.reader import FileForm, ReadLimits, has_key_like, read_file, yaml_text
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import AgentError, ManifestError, Problem, ScriptMismatch, nearest
from teamwright.values.call_limits import MOST_REQUESTS, reply_cut_warning, text_size
from teamwright.values.limits import Pace
from teamwright.values.names import check_name
from teamwright.values.retries import ERRORS
from teamwright.values.run_keys import request_place, tool_place
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.models import AnyModel, NamedModel
from teamwright.values.specs.tools import TERMINATE
from teamwright.values.text.timed_regex import PatternSearch, pattern_problem
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.messages import Message, digest, quote_headers
from teamwright.values.turns.turn import Reply, Signal, ToolUse, Turn
from teamwright.values.usage_and_prices import Price, Rate, Usage
from teamwright.values.value import Value

if TYPE_CHECKING:
    from teamwright.agents.clients.client_pool import Models


RULES = "rules"
NO_SCRIPT = "This is not a script of replies: a script is a list of rules, or has them under 'rules'"
HINT = "a rule is a mapping with a reply"
MOST_RULES = 50
"""So many rules say whether a file is a script."""
ROOM = ReadLimits(size=32 << 20, nodes=1_000_000, characters=64 << 20, escapes=True)

PIECES = 8
MOST_COMPARED = 200
"""How many rules, and characters of each, are compared with a prompt to find the nearest rule."""


class ToolRule(Value):
    """The tool that a rule calls."""

    name: str
    args: dict[str, JsonValue] = {}


class Rule(Value):
    """One rule; exactly one of `reply`, `json`, `tool` and `error` is its answer."""

    agent: str = "*"
    match: str | None = None
    reply: str | None = None
    data: Annotated[JsonValue, Field(alias="json")] = None
    tool: ToolRule | None = None
    error: Literal["rate_limit", "context_length", "timeout", "server", "refused", "invalid_request"] | None = None
    delay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    times: int | None = Field(default=None, ge=1)

    @field_validator("match")
    @classmethod
    def _expression(cls, match: str | None) -> str | None:
        if match is not None and (problem := pattern_problem(match)):
            raise ValueError(f"match is not a regular expression: {problem}")
        return match

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        given = [name for name in ("reply", "data", "tool", "error") if name in self.model_fields_set]
        if len(given) != 1:
            raise ValueError("a rule needs exactly one of reply, json, tool and error")
        return self

    def matches(self, agent: str, prompt: str, search: PatternSearch | None = None) -> bool:
        """Whether the rule answers this prompt of this agent; `search` shares one time limit among several rules."""
        if not fnmatchcase(agent, self.agent):
            return False
        return self.match is None or (search or PatternSearch()).found(self.match, prompt)


class Script(Value):
    """A file of rules. With `strict`, every rule must be used by the end of the run."""

    rules: tuple[Rule, ...] = ()
    strict: bool = False

    @classmethod
    def load(cls, path: Path) -> Script:
        """Read a script; raises `ManifestError` with every mistake in it."""
        return _read_script(path)

    def to_yaml(self) -> str:
        """Return the script as YAML that `load` can read."""
        return yaml_text(self.model_dump(mode="json", exclude_unset=True, by_alias=True))

    def unused_rules(self, used: Callable[[str], int]) -> list[str]:
        """Return messages for the unused rules of a strict script: never used, or fewer times than declared."""
        if not self.strict:
            return []
        return [
            f"rule {index} for {rule.agent!r} was used {used(rule_mark(index))} of {rule.times or 1} times"
            for index, rule in enumerate(self.rules, start=1)
            if used(rule_mark(index)) < (rule.times or 1)
        ]

    def nearest(self, agent: str, prompt: str) -> str:
        """Describe the rule that is nearest to the prompt."""
        if not self.rules:
            return "the script has no rules"
        own = [rule for rule in self.rules if fnmatchcase(agent, rule.agent)][:MOST_COMPARED]
        tail = prompt[-MOST_COMPARED:]
        rule = max(
            own or self.rules[:MOST_COMPARED],
            key=lambda one: difflib.SequenceMatcher(
                None, (one.match or "")[:MOST_COMPARED], tail, autojunk=False
            ).ratio(),
        )
        bound = f", at most {rule.times} times" if rule.times else ""
        return f"the nearest is rule {self.rules.index(rule) + 1}: agent {rule.agent!r}, match {rule.match!r}{bound}"


def _read_script(path: Path) -> Script:
    report = ProblemReport()
    form = FileForm(_is_script, NO_SCRIPT, HINT)
    documents = read_file(path, report, ROOM, form=form, may_be_empty=True)
    script: Script | None = None
    if len(documents) > 1:
        report.problem(documents[1].place, "A script is one document, and this is a second one", "remove it")
    elif not documents:
        script = Script()
    elif (root := _root(documents[0], report)) is not None:
        script = _build_script(root, report)
    if report.problems or script is None:
        raise ManifestError(sort_problems(_first_at_each_place(report.problems), [str(path)]))
    return script


@cache
def _schema() -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", Script.model_json_schema(by_alias=True))


def _is_script(document: Node) -> bool:
    """Whether a document is a script, though perhaps one with mistakes: its rules look like rules."""
    parts = cast("Mapping[str, Mapping[str, JsonValue]]", _schema()["properties"])
    if isinstance(document, Fields):
        if document.entries and not has_key_like(document, parts):
            return False
        document = document.get(RULES) or Items((), document.place)
    if not isinstance(document, Items):
        return False
    definitions = cast("Mapping[str, Mapping[str, JsonValue]]", _schema()["$defs"])
    rule = str(cast("Mapping[str, JsonValue]", parts[RULES]["items"])["$ref"]).rpartition("/")[2]
    known = cast("Mapping[str, JsonValue]", definitions[rule]["properties"])
    return not document.items or any(has_key_like(one, known) for one in document.items[:MOST_RULES])


def _root(document: Node, report: ProblemReport) -> Fields | None:
    """Return the document as a mapping; a plain list is the rules."""
    if isinstance(document, Items):
        return Fields({RULES: Entry(RULES, document.place, document)}, document.place)
    if isinstance(document, Fields):
        return document
    message = f"A script is a list of rules, or has them under {RULES!r}, and this is {described(document)}"
    report.problem(document.place, message)
    return None


def _build_script(root: Fields, report: ProblemReport) -> Script | None:
    schema = _schema()
    parts = cast("Mapping[str, Mapping[str, JsonValue]]", schema["properties"])
    definitions = cast("Mapping[str, JsonValue]", schema["$defs"])
    for name, entry in root.entries.items():
        if name not in parts:
            report.problem(entry.place, f"{shown(name)} is not a part of a script", report.near(name, parts))
        elif name != RULES or not isinstance(entry.node, Items):
            SchemaCheck("the script", report, definitions).check(entry.node, parts[name], entry.key)
    rules = root.get(RULES)
    rule = cast("Mapping[str, JsonValue]", parts[RULES]["items"])
    faulty: set[str | int] = set()
    for index, node in enumerate(rules.items if isinstance(rules, Items) else ()):
        before = len(report.problems)
        SchemaCheck(_rule_label(index), report, definitions).check(node, rule)
        if len(report.problems) > before:
            faulty.add(index)
    data = plain(root)
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            _report_misfit(one.at, one.text, root, faulty, report)
        return None


def _report_misfit(
    place: tuple[int | str, ...], text: str, root: Fields, faulty: Iterable[str | int], report: ProblemReport
) -> None:
    """Report a validation error that the schema check did not find, unless the schema check reported its rule."""
    match place:
        case ("rules", int(index), *_) if index not in faulty:
            report.problem(place_at(root, place), f"{_rule_label(index)}: {text}")
        case _ if not report.problems:
            report.problem(place_at(root, place), f"{'.'.join(map(str, place))}: {text}")
        case _:
            pass


def _rule_label(index: int) -> str:
    """The name of a rule in messages, counted from one."""
    return f"rule {index + 1}"


def _first_at_each_place(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Keep only the first problem at each position: the others follow from it."""
    first: dict[Place, Problem] = {}
    for one in problems:
        first.setdefault(Place(one.file, one.line, one.column), one)
    return first.values()


def rule_mark(index: int) -> str:
    """The mark under which the record counts the uses of a rule."""
    return f"rule-{index}"


def unused_rules(agents: Iterable[Agent], used: Callable[[str, str], int]) -> list[str]:
    """Return messages for the unused rules of these agents' strict scripts; `used` counts a mark of a member."""
    members: dict[int, tuple[Script, set[str]]] = {}
    for agent in agents:
        if isinstance(agent, ScriptedAgent):
            members.setdefault(id(agent.script), (agent.script, set()))[1].add(agent.name)
    return [
        text
        for script, names in members.values()
        for text in script.unused_rules(lambda key, names=names: sum(used(name, key) for name in names))
    ]


def _as_script(owner: str, script: Script | Sequence[Rule]) -> Script:
    return script if isinstance(script, Script) else Script(rules=tuple(listed(owner, "script", script)))


class ScriptedAgent(Agent):
    """An agent that answers by a script instead of a model. It calls its tools for real."""

    kind = "scripted"

    @checked_call("agent", AgentKeywords.__optional_keys__, kind="scripted", fields=AgentSpec.model_fields)
    def __init__(
        self,
        name: str,
        script: Script | Sequence[Rule],
        *,
        instructions: str = "",
        check: Checks | None = None,
        tools: Sequence[ToolLike] = (),
        max_tokens: int | None = None,
        pace: Pace | None = None,
        price: Price | None = None,
        source: str | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None:
        self.name, owner, mistakes = check_name("agent", name), f"The agent {name!r}", Mistakes()
        collect = mistakes.collect
        self.script = collect(_as_script, owner, script)
        shared = shared_settings(name, settings, mistakes, {"instructions": instructions, "max_tokens": max_tokens})
        own = shared.policy
        collect(check_instance, owner, "price", price, Price)
        collect(check_instance, owner, "pace", pace, Pace)
        collect(check_instance, owner, "source", source, str)
        self._guardrails = collect(make_guardrails, name, check)
        self.toolbox = collect(Toolbox, tools, own.confirm, name, own.reply_bytes)
        mistakes.raise_all()
        self._input_schema, self._output_schema = shared.input_schema, shared.output_schema
        self.description, self.instructions, self.capabilities = shared.description, instructions, shared.capabilities
        self.tool_agents = self.toolbox.agents
        self.policy = self.toolbox.extend(own)
        self._max_tokens, self._timeout, self._source = max_tokens, shared.timeout, source
        self._pace, self._price = pace, price
        self._model = f"scripted:{source}" if source else "scripted"
        self._in_flight: Counter[tuple[str, str]] = Counter()

    @property
    def spec(self) -> AgentSpec:
        """The agent as a declaration, without a script that is not from a file."""
        declared: dict[str, object] = {
            "model": self._declared_model,
            "instructions": self.instructions,
            "description": self.description,
            "tools": self.toolbox.specs,
            "capabilities": self.capabilities,
            "input_schema": self._input_schema,
            "output_schema": self._output_schema,
            "max_tokens": self._max_tokens,
            "timeout": self._timeout,
            "check": None if self._guardrails is None else self._guardrails.declared,
            **self.policy.declared(self.name),
        }
        given = {name: value for name, value in declared.items() if value}
        if self._guardrails is not None and not self._guardrails.is_importable:
            given.pop("model", None)  # a check that can't be imported by name must not be left out on a resume
        return AgentSpec.model_validate(given)

    @property
    def _declared_model(self) -> AnyModel | None:
        """The script as a manifest names it; `None` if it is not from a file."""
        if self._source is None:
            return None
        return self._named_model if self._pace or self._price else self._model

    @property
    def _named_model(self) -> NamedModel:
        """The script as a model with its rate limit and its price."""
        pace = self._pace.model_dump(include=set(Pace.model_fields), exclude_none=True) if self._pace else {}
        return NamedModel.model_validate({"model": self._model, "price": self._price, **pace})

    def _rate(self, prompt: int) -> Rate | None:
        return rate_of(self._named_model, prompt)

    async def preflight(self, models: Models) -> list[str]:
        return self.toolbox.problems()

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn by the script, calling tools as its rules say."""
        return await (
            self._respond(turn, ctx) if self._guardrails is None else self._guardrails.run(turn, ctx, self._respond)
        )

    async def _respond(self, turn: Turn, ctx: Context) -> Reply:
        if self._input_schema is not None:
            check_input(self._input_schema, turn.task, f"The task of {self.name!r}")
        prompt, cap = turn.prompt, self._max_tokens or turn.max_output
        if turn.left is not None and (little := low_budget_notice(turn, self._named_model, self.instructions, cap)):
            prompt += f"\n\n{little}"
        failed: set[str] = set()
        uses: list[ToolUse] = []
        async with self.toolbox.open(
            ctx,
            allow=turn.tools,
            seconds=self._timeout,
            points=turn.has_pointers,
            purpose=turn.purpose,
            handoffs=turn.handoffs,
        ) as tools:
            for number in range(1, MOST_REQUESTS + 1):
                call = partial(self._answer_request, prompt, tools, failed)
                returned = await ctx.effect(request_place(number), self._request_effect(prompt, cap, call, tools))
                match returned.value:
                    case {"tool": dict() as tool}:
                        name, args = str(tool["name"]), tool["args"]
                        if name == TERMINATE and tools.may_terminate:
                            return self._final_reply(turn, final_response(args) or "", tools, uses, signal="terminate")
                        if (to := tools.transfers.get(name)) is not None:
                            return self._final_reply(turn, transfer_message(args), tools, uses, transfer_to=to)
                        given, key = (args if isinstance(args, dict) else {}), tool_place(str(number))
                        prompt += await self._call_tool(tools, name, given, key, failed, turn, uses)
                    case {"json": data}:
                        return self._final_reply(turn, to_json(data).decode(), tools, uses, data=data)
                    case value:
                        return self._final_reply(turn, str(value), tools, uses, returned)
        raise AgentError(f"{self.name!r} called tools {MOST_REQUESTS} times without an answer")

    async def _call_tool(
        self, tools: Tools, name: str, given: Arguments, key: str, failed: set[str], turn: Turn, uses: list[ToolUse]
    ) -> str:
        """Call a tool, and return what its result adds to the prompt; adds a tool that failed to `failed`."""
        made, approved = name, given
        try:
            approved = await tools.approved_arguments(name, given, key=key)
            if approved is not given:
                made = f"{name}, which a person changed to {to_json(approved).decode()}"
            returned = await tools.call_with_files(name, approved, key=key)
        except AgentError as error:
            failed.add(name)
            uses.append(ToolUse.of(name, dict(approved), str(error), failed=True))
            return f"\n\n# tool {made} failed:\n{self._quoted_result(str(error), turn)}"
        result = with_pointers(returned.value, returned.artifacts) if returned.artifacts else returned.value
        uses.append(ToolUse.of(name, dict(approved), result))
        return f"\n\n# tool {made}:\n{self._quoted_result(result, turn)}"

    @staticmethod
    def _quoted_result(result: JsonValue, turn: Turn) -> str:
        """Format a tool's result as text, quoted so that no line looks like a message of another member."""
        text = result if isinstance(result, str) else to_json(result).decode()
        return quote_headers(text, turn.speakers)

    def _request_effect(
        self, prompt: str, cap: int | None, call: Callable[[Attempt], Awaitable[Returned]], tools: Tools
    ) -> Effect:
        return Effect(
            kind="model",
            name="scripted",
            request=digest(prompt),
            call=call,
            prompt_bytes=text_size(prompt),
            messages=1,
            max_output=cap,
            retry=self.policy.retry,
            timeout=self._timeout,
            model=self._model,
            pace=self._pace,
            rate=self._rate,
            max_bytes=self.policy.reply_bytes,
            prompt_tokens=_tokens(prompt),
            describe=partial(self._describe, prompt, tools),
        )

    def _describe(self, prompt: str, tools: Tools) -> SentRequest:
        """Describe a request with what a model in its place would be sent."""
        offered = tuple(OfferedTool(one.name, one.description, one.parameters) for one in tools.definitions)
        return SentRequest((SentMessage("user", prompt),), self.instructions, offered)

    async def _answer_request(self, prompt: str, tools: Tools, failed: Collection[str], attempt: Attempt) -> Returned:
        if self._guardrails is not None and self._guardrails.checks_output:
            attempt = attempt.unfollowed()
        index, rule = self._choose_rule(prompt, attempt)
        self._check_tool(index, rule, failed, tools)
        name = rule_mark(index)
        self._in_flight[attempt.run_id, name] += 1
        try:
            return await self._apply_rule(rule, name, prompt, attempt)
        finally:
            self._in_flight[attempt.run_id, name] -= 1

    def _choose_rule(self, prompt: str, attempt: Attempt) -> tuple[int, Rule]:
        search = PatternSearch()
        for index, rule in enumerate(self.script.rules, start=1):
            used = attempt.used(rule_mark(index)) + self._in_flight[attempt.run_id, rule_mark(index)]
            if (rule.times is None or used < rule.times) and rule.matches(self.name, prompt, search):
                return index, rule
        shown = prompt if len(prompt) <= 400 else "…" + prompt[-400:]
        hint = self.script.nearest(self.name, prompt)
        raise ScriptMismatch(f"The script has no rule for {self.name!r} and this prompt:\n{shown}\n({hint})")

    def _check_tool(self, index: int, rule: Rule, failed: Collection[str], tools: Tools) -> None:
        """Raise if a rule would call a missing tool again after it failed, which would loop forever."""
        if rule.tool is None or rule.times is not None or rule.tool.name not in failed:
            return
        known = [definition.name for definition in tools.definitions]
        if rule.tool.name not in known:
            name, hint = rule.tool.name, nearest(rule.tool.name, known, "" if known else "it has none")
            raise ScriptMismatch(f"Rule {index} calls the tool {name!r}, which {self.name!r} does not have; {hint}")

    async def _apply_rule(self, rule: Rule, name: str, prompt: str, attempt: Attempt) -> Returned:
        if rule.error is not None:
            await anyio.sleep(rule.delay)
            error = ERRORS[rule.error](f"the script says so ({name})")
            error.mark = name
            raise error
        value: JsonValue = rule.reply or ""
        if rule.tool is not None:
            value = {"tool": rule.tool.model_dump(mode="json")}
        elif "data" in rule.model_fields_set:
            value = {"json": rule.data}
        text = value if isinstance(value, str) else to_json(value).decode()
        cut = isinstance(value, str) and attempt.max_output is not None and len(text) > 4 * attempt.max_output
        if cut and attempt.max_output is not None:
            value = text = text[: 4 * attempt.max_output]
        await _stream_text(text if isinstance(value, str) else "", rule.delay, attempt)
        usage = Usage(requests=1, input_tokens=_tokens(prompt), output_tokens=_tokens(text))
        if self._price is not None:
            usage = usage.changed(usd=self._price.cost(usage))
        return Returned(value, usage, name, cut)

    def _final_reply(
        self,
        turn: Turn,
        text: str,
        tools: Tools,
        uses: Sequence[ToolUse],
        returned: Returned | None = None,
        *,
        data: JsonValue = None,
        signal: Signal | None = None,
        transfer_to: str | None = None,
    ) -> Reply:
        ends_early = signal is not None or transfer_to is not None
        messages = (Message(name=self.name, content=text),) if text or not ends_early else ()
        warnings, truncated = tuple(tools.warnings), returned is not None and returned.truncated
        if returned is not None and returned.capped is not None:
            warnings = (*warnings, reply_cut_warning(self.name, returned.capped))
        reply = Reply(
            messages=messages,
            data=data,
            truncated=truncated,
            signal=signal,
            warnings=warnings,
            transfer_to=transfer_to,
            tool_uses=tuple(uses) if turn.keeps_tool_uses else (),
        )
        if self._output_schema is not None and ends_early:
            return reply
        return with_data(reply, self._output_schema, f"The reply of {self.name!r}", turn.output_schema)


async def _stream_text(text: str, delay: float, attempt: Attempt) -> None:
    """Stream the reply in pieces over the rule's delay."""
    if not delay:
        attempt.delta(text)
        return
    size = max(1, -(-len(text) // PIECES))
    for start in range(0, max(len(text), 1), size):
        await anyio.sleep(delay * size / max(len(text), 1) if text else delay)
        attempt.delta(text[start : start + size])


def _tokens(text: str) -> int:
    return -(-len(text) // 4)
