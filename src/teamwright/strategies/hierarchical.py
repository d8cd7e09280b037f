"""An orchestrator that decides turn by turn: delegate to specialists, ask a person, or give the answer.

The prompt asks for one format of a decision; parsing also accepts common variants. The message of a failure is never
forwarded; the orchestrator only learns that there is no answer from a specialist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Literal, assert_never, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter
from pydantic_core import to_json

from teamwright.agents.agent import Context
from teamwright.errors import nearest
from teamwright.strategies.part_results import FailurePolicy, PartResults
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    introduction,
    places,
)
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.strategies.team_conversation import TeamConversation, stop_at_limit
from teamwright.values.events.team import TeamDecided, TeamReplyRejected
from teamwright.values.limits import ClosingAsk
from teamwright.values.people import Answer, Question
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.tools import AgentName
from teamwright.values.turns.messages import EMPTY, Conversation, Message, Role
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import Value

FORM = """\
{"action": "delegate", "delegations": [{"specialist": NAME, "task": TEXT}, …]}  to let specialists work, side by side
{"action": "clarify", "question": TEXT}  to ask a person, when only a person can know
{"action": "synthesize", "synthesis": TEXT}  to give the team's answer and end"""
"""The format of a decision, as the prompt shows it."""


def _as_text(value: object) -> object:
    """Return JSON that is not a text as text, such as an object given as a task."""
    return value if isinstance(value, str) or value is None else to_json(value).decode()


Text = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]


class LenientValue(Value):
    """A value that ignores unknown fields, because models add them."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Delegation(LenientValue):
    """A task for one specialist."""

    specialist: Annotated[str, Field(validation_alias=AliasChoices("specialist", "specialist_id", "specialistId"))]
    task: Annotated[Text, Field(validation_alias=AliasChoices("task", "subtask"))]


class Delegate(LenientValue):
    """Let specialists work concurrently."""

    action: Literal["delegate"]
    delegations: Annotated[tuple[Delegation, ...], Field(min_length=1)]


class Synthesize(LenientValue):
    """Give the answer of the team."""

    action: Literal["synthesize"]
    synthesis: Annotated[JsonValue, Field(validation_alias=AliasChoices("synthesis", "answer"))]

    @property
    def text(self) -> str:
        return self.synthesis if isinstance(self.synthesis, str) else to_json(self.synthesis).decode()


class Clarify(LenientValue):
    """Ask a person."""

    action: Literal["clarify"]
    question: Text
    choices: tuple[str, ...] = ()


Decision = Delegate | Synthesize | Clarify


def read_decision(reply: Reply, specialists: Sequence[str], most: int) -> Decision | ParseFailure:
    """Return the decision of an orchestrator, with the exact names of specialists; `most` limits its delegations."""
    decision = read_answer(reply, _decision())
    if not isinstance(decision, Delegate):
        return decision
    if len(decision.delegations) > most:
        return ParseFailure(f"it delegates {len(decision.delegations)} tasks at once, and at most {most} are allowed")
    known: list[Delegation] = []
    for one in decision.delegations:
        name = _matching_specialist(one.specialist, specialists)
        if name is None:
            hint = nearest(one.specialist, specialists).rstrip(".")
            return ParseFailure(f"there is no specialist {one.specialist!r}; {hint}")
        known.append(one if name == one.specialist else one.model_copy(update={"specialist": name}))
    return decision.model_copy(update={"delegations": tuple(known)})


def decision_schema(specialists: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a decision: one object with `action`, a form that every provider accepts."""
    text: JsonValue = {"type": "string"}
    names = cast("list[JsonValue]", list(specialists))
    delegation: JsonValue = {
        "type": "object",
        "properties": {"specialist": {"type": "string", "enum": names}, "task": text},
        "required": ["specialist", "task"],
    }
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["delegate", "synthesize", "clarify"]},
            "delegations": {"type": "array", "items": delegation, "description": "with delegate: who does what"},
            "synthesis": {"type": "string", "description": "with synthesize: the team's answer"},
            "question": {"type": "string", "description": "with clarify: what a person is asked"},
        },
        "required": ["action"],
    }


def example_decision(schema: Mapping[str, JsonValue], number: int) -> JsonValue:
    """Return a decision that matches `decision_schema`: first delegate to all, then synthesize; else None."""
    specialists = _specialists(dict(schema))
    if schema != decision_schema(specialists):
        return None
    if number > 1:
        return {"action": "synthesize", "synthesis": "All of it, put together."}
    return {"action": "delegate", "delegations": [{"specialist": one, "task": "Your part."} for one in specialists]}


def _specialists(schema: JsonValue) -> list[str]:
    """Return the specialists that the schema of a decision allows, in order."""
    for field in ("properties", "delegations", "items", "properties", "specialist", "enum"):
        schema = schema.get(field) if isinstance(schema, dict) else None
    return [name for name in schema if isinstance(name, str)] if isinstance(schema, list) else []


@cache
def _decision() -> TypeAdapter[Decision]:
    one_of = Annotated[Decision, Field(discriminator="action"), BeforeValidator(_normalized)]
    return TypeAdapter(one_of)


def _normalized(value: object) -> object:
    """Return the decision in the expected format: the action in lower case, a single delegation as a list."""
    if not isinstance(value, Mapping):
        return value
    fields = dict(cast("Mapping[str, JsonValue]", value))
    action = fields.get("action")
    if isinstance(action, str):
        fields["action"] = action.strip().lower()
    if fields.get("action") == "delegate":
        given = fields.get("delegations", fields)
        fields["delegations"] = [given] if isinstance(given, Mapping) else given
    return fields


def _matching_specialist(name: str, specialists: Sequence[str]) -> str | None:
    """Return the specialist with this name: an exact match, or else the only one that differs in case."""
    plain = name.strip()
    if plain in specialists:
        return plain
    like = [one for one in specialists if one.casefold() == plain.casefold()]
    return like[0] if len(like) == 1 else None


MAX_DELEGATIONS = 20
"""How many tasks one decision may delegate."""
SHOWN_CHARACTERS = 8000
"""How many characters of each result the orchestrator sees; the rest is cut, with a note."""


class HierarchicalOptions(FailurePolicy):
    """The orchestrator and its limits. It always learns of a failed specialist."""

    lead: AgentName = Field(description="the agent that decides: a member, or another agent or team")
    max_iterations: int = Field(default=10, ge=1, description="how many decisions may be made")
    max_parallel: int = Field(default=10, ge=1, description="how many specialists work at once")


class Hierarchical(Strategy):
    """Decisions of one orchestrator, until it gives the answer or `max_iterations` are used up."""

    name = "hierarchical"
    version = 1
    options = HierarchicalOptions

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that there are specialists besides the orchestrator, each with a name of its own."""
        orchestrator = settings.read(HierarchicalOptions).lead
        names = [member.name for member in members if member.name != orchestrator]
        found: list[Issue] = []
        if members and not names:
            found.append(Issue(f"'hierarchical' needs a specialist besides {orchestrator!r}", ("lead",)))
        if len(set(names)) < len(names):
            found.append(Issue("'hierarchical' takes each specialist once, but one is listed twice"))
        if settings.max_turns is not None:
            found.append(Issue("'hierarchical' counts decisions: set max_iterations in its options, not max_turns"))
        return found

    def lead(self, settings: Settings, members: Members) -> str:
        return settings.read(HierarchicalOptions).lead

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the last decision of the orchestrator; any may be the last."""
        return [ClosingAsk(settings.read(HierarchicalOptions).lead)]

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a decision: the first delegates to every specialist, any other synthesizes."""
        return None if turn.output_schema is None else example_decision(turn.output_schema, turn.number)

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        options = settings.read(HierarchicalOptions)
        lead = Node(id="decide", agent=options.lead, about="delegates, asks a person, or answers")
        nodes = [node for node in places(members) if node.agent != options.lead]
        down = (Arrow(source=lead.id, to=node.id, label="delegates to") for node in nodes)
        up = (Arrow(source=node.id, to=lead.id) for node in nodes)
        notes = (f"at most {options.max_iterations} decisions", f"{options.max_parallel} at once")
        return Diagram(nodes=(lead, *nodes), arrows=(*down, *up), notes=notes)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask for decisions and execute them, until one ends the team."""
        run = HierarchicalRun(task, members)
        most = run.options.max_iterations
        for number in range(1, most + 1):
            decision = await run.decide(number, ctx)
            if run.talk.short_of_budget and isinstance(decision, Delegate | Clarify):
                text = f"{run.options.lead!r} gave no answer when the budget was used up"
                return run.talk.ended("done", text)
            match decision:
                case Outcome():
                    return decision
                case Synthesize():
                    return run.synthesize(decision)
                case Clarify():
                    question = Question(text=decision.question, choices=decision.choices)
                    answer = await ctx.ask_person(question, key=f"decision-{number}/clarify")
                    run.add_clarification(decision, answer)
                case Delegate():
                    if ended := await run.delegate(decision, number, ctx):
                        return ended
                case _:
                    assert_never(decision)
        return stop_at_limit(run.talk, task.settings, f"{most} decisions", f"max_iterations: {most}")


class HierarchicalRun:
    """The state of one run: the conversation, and what the orchestrator sees of it."""

    def __init__(self, task: Task, members: Members) -> None:
        self.options = task.settings.read(HierarchicalOptions)
        self.talk = TeamConversation(task)
        self._task = task
        self._orchestrator = members.named(self.options.lead)
        self._specialists = {one.name: one for one in members if one.name != self._orchestrator.name}
        self._orchestrator_view = Conversation()
        self._orchestrator_view.extend(task.history)
        self._conversation = Conversation()
        self._conversation.extend(task.history)
        self._conversation.append(task.message)

    async def decide(self, number: int, ctx: Context) -> Decision | Outcome:
        """Return the decision of the orchestrator. After an invalid one it is asked once more; then the team fails."""
        problem = ""
        for place in ("decide", "decide-again"):
            turn = self._decision_turn(number, problem)
            reply = await ctx.ask(self._orchestrator, turn, key=f"decision-{number}/{place}")
            if isinstance(reply, Failure):
                return self.talk.failed(reply)
            if reply.signal == "terminate":
                self.talk.add(reply)
                return self.talk.ended("terminated")
            self.talk.warn(reply)
            decision = read_decision(reply, list(self._specialists), MAX_DELEGATIONS)
            if not isinstance(decision, ParseFailure):
                self._show_decision(reply)
                to = tuple(one.specialist for one in decision.delegations) if isinstance(decision, Delegate) else ()
                fact = TeamDecided(by=self._orchestrator.name, action=decision.action, iteration=number, to=to)
                await ctx.emit(fact)
                return decision
            problem = decision.problem
            if place == "decide":
                await ctx.emit(TeamReplyRejected(member=self._orchestrator.name, problem=problem))
                self._show_orchestrator(self._orchestrator.name, reply.text)
        text = f"its decision could not be used, also when asked again: {problem}"
        return self.talk.failed(Failure(member=self._orchestrator.name, error="invalid_output", message=text))

    async def delegate(self, decision: Delegate, number: int, ctx: Context) -> Outcome | None:
        """Run the specialists concurrently, and add their replies in the order of delegation."""
        history = EMPTY if self._task.settings.share == "output" else self._conversation.history()
        parts, who = PartResults(self.options), dict[str, str]()
        async with ctx.branches(self.options.max_parallel, until=lambda: parts.is_over) as branches:
            for place, one in enumerate(decision.delegations, start=1):
                name = f"decision-{number}/{place}-{one.specialist}"
                who[name] = one.specialist
                turn = Turn(one.task, history, number)
                branches.start(name, partial(parts.ask, name, self._specialists[one.specialist], turn))
        if ended := parts.finish(self.talk, who, need_one=False, closes=True):
            return ended
        for name, specialist in who.items():
            self._show_result(specialist, parts.replies.get(name))
        return None

    def add_clarification(self, decision: Clarify, answer: Answer) -> None:
        """Add the answer of a person to the conversation."""
        self._conversation.append(Message(name=self._orchestrator.name, content=decision.question))
        self._conversation.append(Message(name=answer.by or "user", content=answer.text, role="user"))
        self._show_orchestrator(answer.by or "user", answer.text, role="user")

    def synthesize(self, decision: Synthesize) -> Outcome:
        data = None if isinstance(decision.synthesis, str) else decision.synthesis
        self.talk.add(Reply.of(self._orchestrator.name, decision.text, data=data))
        return self.talk.ended("done")

    def _decision_turn(self, number: int, problem: str) -> Turn:
        """Return the turn of the lead: the results of its decisions so far, then its choices."""
        most = self.options.max_iterations
        is_last = number == most or self.talk.short_of_budget
        last = " It is the last one: synthesize now." if is_last else ""
        parts = [
            f"You lead a team. Decide what comes next. Answer with one JSON object:\n{FORM}",
            "The specialists:\n" + "\n".join(f"- {introduction(one)}" for one in self._specialists.values()),
            f"This is decision {number} of at most {most}.{last}",
            f"Your last answer could not be used: {problem}. Decide again." if problem else "",
            f"The task:\n{self._task.text}",
        ]
        return Turn(
            "\n\n".join(part for part in parts if part),
            self._orchestrator_view.history(),
            number,
            purpose="coordinate",
            output_schema=decision_schema(list(self._specialists)),
            attachments=self._task.attachments,
            closing=True,
        )

    def _show_decision(self, reply: Reply) -> None:
        """Show a decision; with `share: output`, earlier decisions and results are no longer shown."""
        if self._task.settings.share == "output":
            self._orchestrator_view = Conversation()
        self._show_orchestrator(self._orchestrator.name, reply.text or to_json(reply.data).decode())

    def _show_result(self, specialist: str, reply: Reply | None) -> None:
        """Show the result of a delegation; for a failed one, only that there is no answer."""
        if reply is None:
            self._show_orchestrator(specialist, f"There is no answer from {specialist!r}.")
            return
        self._conversation.extend(reply.messages)
        if reply.whole is None:
            self._show_orchestrator(specialist, reply.text)
        else:
            self._orchestrator_view.extend(reply.messages)

    def _show_orchestrator(self, name: str, text: str, role: Role = "assistant") -> None:
        most = SHOWN_CHARACTERS
        shown = text if len(text) <= most else f"{text[:most]}… (cut here; it has {len(text)} characters)"
        self._orchestrator_view.append(Message(name=name, content=shown, role=role))
