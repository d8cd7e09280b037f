"""An orchestrator who delegates to specialists, asks a person, and puts the answer together.

What a specialist failed with is never told to anybody, only that there is no answer from it.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from pydantic import Field, JsonValue
from pydantic_core import to_json

from teamwright.agents.context import Context
from teamwright.strategies.conversation.turn_limit import stop_at_limit
from teamwright.strategies.delegation.decisions import (
    FORM,
    Clarify,
    Decision,
    Delegate,
    Synthesize,
    decision_schema,
    example_decision,
    read_decision,
)
from teamwright.strategies.diagram import Arrow, Node, Sketch, places
from teamwright.strategies.introduction import introduction
from teamwright.strategies.parallel.parts import FailurePolicy, PartResults
from teamwright.strategies.protocol import Flaw, Members, Settings, Strategy, Task
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.talk import Talk
from teamwright.values.events.team import TeamDecided, TeamToldBack
from teamwright.values.people.questions import Answer, Question
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import AgentName
from teamwright.values.turns.messages import EMPTY, Conversation, Message, Role
from teamwright.values.turns.turn import Failure, Reply, Turn


class HierarchicalOptions(FailurePolicy):
    """Who decides, how often, and how much at once. The orchestrator hears of a failed specialist in any case."""

    orchestrator: AgentName = Field(description="who decides: a member, or an agent or team beside them")
    max_iterations: int = Field(default=10, ge=1, description="how many decisions may be made")
    limit: int = Field(default=10, ge=1, description="how many specialists work at once")
    max_delegations: int = Field(default=20, ge=1, description="how many tasks one decision may hand out")
    shown_characters: int = Field(
        default=8000, ge=100, description="how much of each result the orchestrator is shown; the rest is cut, visibly"
    )


class Hierarchical(Strategy):
    """Decisions of one orchestrator, until it gives the answer or `max_iterations` of them are made."""

    name = "hierarchical"
    version = 1
    options = HierarchicalOptions

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Somebody besides the orchestrator must be there to work, under one name each."""
        orchestrator = settings.read(HierarchicalOptions).orchestrator
        names = [member.name for member in members if member.name != orchestrator]
        found: list[Flaw] = []
        if members and not names:
            found.append(Flaw(f"'hierarchical' needs a specialist besides {orchestrator!r}", ("orchestrator",)))
        if len(set(names)) < len(names):
            found.append(Flaw("'hierarchical' knows each specialist by its name, but one is listed twice"))
        if settings.max_turns is not None:
            found.append(Flaw("'hierarchical' counts decisions: set max_iterations in its options, not max_turns"))
        return found

    def lead(self, settings: Settings, members: Members) -> str:
        """The orchestrator."""
        return settings.read(HierarchicalOptions).orchestrator

    def example_reply(self, turn: Turn) -> JsonValue:
        """A decision: the first delegates to every specialist, any other one synthesizes."""
        return None if turn.output_schema is None else example_decision(turn.output_schema, turn.number)

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The orchestrator over the specialists, who answer to it."""
        options = settings.read(HierarchicalOptions)
        lead = Node(id="decide", agent=options.orchestrator, about="delegates, asks a person, or answers")
        nodes = [node for node in places(members) if node.agent != options.orchestrator]
        down = (Arrow(source=lead.id, to=node.id, label="delegates to") for node in nodes)
        up = (Arrow(source=node.id, to=lead.id) for node in nodes)
        notes = (f"at most {options.max_iterations} decisions", f"{options.limit} at once")
        return Sketch(nodes=(lead, *nodes), arrows=(*down, *up), notes=notes)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask for a decision and do what it says, again and again."""
        office = Office(task, members)
        most = office.options.max_iterations
        for number in range(1, most + 1):
            decision = await office.decide(number, ctx)
            match decision:
                case Outcome():
                    return decision
                case Synthesize():
                    return office.answered(decision)
                case Clarify():
                    question = Question(text=decision.question, choices=decision.choices)
                    answer = await ctx.ask_person(question, key=f"decision-{number}/clarify")
                    office.clarified(decision, answer)
                case Delegate():
                    if ended := await office.delegate(decision, number, ctx):
                        return ended
                case _:
                    assert_never(decision)
        return stop_at_limit(office.talk, task.settings, f"{most} decisions", f"max_iterations: {most}")


class Office:
    """One run: what was said, and what the orchestrator and the specialists are shown of it."""

    def __init__(self, task: Task, members: Members) -> None:
        self.options = task.settings.read(HierarchicalOptions)
        self.talk = Talk(task)
        self._task = task
        self._orchestrator = members.named(self.options.orchestrator)
        self._specialists = {one.name: one for one in members if one.name != self._orchestrator.name}
        self._minutes = Conversation()
        self._minutes.extend(task.history)
        self._said = Conversation()
        self._said.extend(task.history)
        self._said.append(Message(name="user", content=task.text, role="user"))

    async def decide(self, number: int, ctx: Context) -> Decision | Outcome:
        """The orchestrator's decision; one that can't be used is told back to it once, and then fails the team."""
        problem = ""
        for place in ("decide", "decide-again"):
            turn = self._question(number, problem)
            reply = await ctx.ask(self._orchestrator, turn, key=f"decision-{number}/{place}")
            if isinstance(reply, Failure):
                return self.talk.failed(reply)
            if reply.signal == "terminate":
                self.talk.add(reply)
                return self.talk.ended("terminated")
            self.talk.warn(reply)
            decision = read_decision(reply, list(self._specialists), self.options.max_delegations)
            if not isinstance(decision, ParseFailure):
                self._note_decision(reply)
                to = tuple(one.specialist for one in decision.delegations) if isinstance(decision, Delegate) else ()
                fact = TeamDecided(by=self._orchestrator.name, action=decision.action, iteration=number, to=to)
                await ctx.emit(fact)
                return decision
            problem = decision.problem
            if place == "decide":
                await ctx.emit(TeamToldBack(member=self._orchestrator.name, problem=problem))
                self._note(self._orchestrator.name, reply.text)
        text = f"its decision could not be used, also when asked again: {problem}"
        return self.talk.failed(Failure(member=self._orchestrator.name, error="invalid_output", message=text))

    async def delegate(self, decision: Delegate, number: int, ctx: Context) -> Outcome | None:
        """Let specialists work side by side, and take what they said in the order of delegation."""
        history = EMPTY if self._task.settings.share == "output" else self._said.history()
        parts, who = PartResults(self.options), dict[str, str]()
        async with ctx.branches(self.options.limit, until=lambda: parts.is_over) as branches:
            for place, one in enumerate(decision.delegations, start=1):
                name = f"decision-{number}/{place}-{one.specialist}"
                who[name] = one.specialist
                turn = Turn(one.task, history, number)
                branches.start(name, partial(parts.ask, name, self._specialists[one.specialist], turn))
        if ended := parts.finish(self.talk, who, need_one=False):
            return ended
        for name, specialist in who.items():
            self._note_result(specialist, parts.replies.get(name))
        return None

    def clarified(self, decision: Clarify, answer: Answer) -> None:
        """Take in what a person answered, for everybody."""
        self._said.append(Message(name=self._orchestrator.name, content=decision.question))
        self._said.append(Message(name=answer.by or "user", content=answer.text, role="user"))
        self._note(answer.by or "user", answer.text, role="user")

    def answered(self, decision: Synthesize) -> Outcome:
        """The outcome with the orchestrator's answer."""
        data = None if isinstance(decision.synthesis, str) else decision.synthesis
        self.talk.add(Reply.of(self._orchestrator.name, decision.text, data=data))
        return self.talk.ended("done")

    def _question(self, number: int, problem: str) -> Turn:
        """What the orchestrator is told: what came of its decisions so far, and then what it may decide."""
        most = self.options.max_iterations
        last = " It is the last one: synthesize now." if number == most else ""
        parts = [
            f"You lead a team. Decide what comes next. Answer with one JSON object:\n{FORM}",
            "The specialists:\n" + "\n".join(f"- {introduction(one)}" for one in self._specialists.values()),
            f"This is decision {number} of at most {most}.{last}",
            f"Your last answer could not be used: {problem}. Decide again." if problem else "",
            f"The task:\n{self._task.text}",
        ]
        return Turn(
            "\n\n".join(part for part in parts if part),
            self._minutes.history(),
            number,
            purpose="coordinate",
            output_schema=decision_schema(list(self._specialists)),
        )

    def _note_decision(self, reply: Reply) -> None:
        """Begin what comes of a decision; with `share: output` nothing from before it is shown again."""
        if self._task.settings.share == "output":
            self._minutes = Conversation()
        self._note(self._orchestrator.name, reply.text or to_json(reply.data).decode())

    def _note_result(self, specialist: str, reply: Reply | None) -> None:
        """Take in what came of one delegation; of a failed one, nothing but that there is no answer."""
        if reply is None:
            self._note(specialist, f"There is no answer from {specialist!r}.")
            return
        self._said.extend(reply.messages)
        if reply.whole is None:
            self._note(specialist, reply.text)
        else:
            self._minutes.extend(reply.messages)

    def _note(self, name: str, text: str, role: Role = "assistant") -> None:
        most = self.options.shown_characters
        shown = text if len(text) <= most else f"{text[:most]}… (cut here; it has {len(text)} characters)"
        self._minutes.append(Message(name=name, content=shown, role=role))
