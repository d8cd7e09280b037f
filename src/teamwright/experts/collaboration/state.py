"""The state of one collaboration: its options, the plan, what the phases gave, and the turns of experts and the lead.

Only the loop over finished branches changes the plan, so that a resumed run changes it in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from msgspec.structs import replace
from pydantic import Field, JsonValue
from pydantic_core import to_json

from teamwright.agents.contract.agent import Agent, Context
from teamwright.experts.expert_agent import default_lead
from teamwright.strategies.expressions.conditions_and_templates import Template
from teamwright.strategies.parts import result_of
from teamwright.strategies.plan.graph import StepGraph
from teamwright.strategies.plan.lead import turn_with_context
from teamwright.strategies.plan.plan_check import phase_text
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.step_outputs import StepInput
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.team_conversation import is_unaffordable
from teamwright.values.events.team import TeamReplyRejected
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Part, Plan, Roster, Step
from teamwright.values.specs.tools import AgentName
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import Value


class CollaborateOptions(Value):
    """The plan of a collaboration, or none if the lead writes it, and how it runs."""

    steps: tuple[Step, ...] = Field(default=(), description="the phases, in any order; without them, the lead plans")
    variables: dict[str, JsonValue] = Field(default={}, description="values that tasks use, as `variables.NAME`")
    lead: AgentName | None = Field(
        default=None,
        description="who leads: a member, or another agent or team; by default the one with `is_lead`, else the first",
    )
    fallback: AgentName | None = Field(
        default=None, description="who finishes the task alone where the plan fails; by default the lead"
    )
    max_parallel: int = Field(default=10, ge=1, description="how many phases run at once, and how many of their parts")
    confirm: bool = Field(
        default=False, description="whether a person approves the plan before it runs, and later each difference"
    )
    max_phases: int = Field(
        default=20,
        ge=1,
        le=200,
        description="how many phases a plan may have that models write or change, and how many may work on one of them",
    )
    proposals: int = Field(default=3, ge=0, description="how many changes of the plan experts may propose; 0 is none")

    @property
    def plan(self) -> Plan | None:
        """The plan, if it is declared."""
        return Plan(steps=self.steps, variables=self.variables) if self.steps else None

    def lead_of(self, members: Members) -> Agent:
        """Return the agent that leads: the one that is declared, else the expert that is a lead, else the first."""
        return default_lead(members) if self.lead is None else members.named(self.lead)

    def finisher_of(self, members: Members) -> Agent:
        """Return the agent that finishes the task where the plan fails."""
        return self.lead_of(members) if self.fallback is None else members.named(self.fallback)

    def roster(self, members: Members) -> Roster:
        """Return the names of the team."""
        names = tuple(member.name for member in members)
        helpers = tuple(name for name in members.names if name not in names)
        return Roster(names, self.lead_of(members).name, helpers)


T = TypeVar("T")

PROPOSE = (
    "If the plan of your team should change, end your answer with a JSON object in a fenced block:"
    ' {"plan_change": {"put": [phases that are new or replaced], "remove": [ids], "reason": "…"}}. The lead decides.'
)
NOTICE = "plan"
"""The name under which members read about the plan."""
LAST = 1 << 20
"""The place of what the lead made of a phase, after those of its experts."""


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work; `key` is that of its ask within the phase, and `place` orders it in the conversation."""

    author: Agent
    turn: Turn
    key: str
    reply: Reply
    place: int


class CollaborationState:
    """What a running collaboration knows. Once it `is_over`, nothing else starts."""

    def __init__(self, task: Task, members: Members) -> None:
        self.task, self.members = task, members
        self.options = task.settings.read(CollaborateOptions)
        self.team = self.options.roster(members)
        self.lead = self.options.lead_of(members)
        self.plan: Plan | None = None
        self.results: dict[str, Reply] = {}
        self.said: dict[tuple[str, int, int], Reply] = {}
        """Every reply that is part of the conversation, by phase, attempt and place."""
        self.done_parts: dict[tuple[str, Part], Work] = {}
        """The work on parts of phases, which another attempt at the phase does not repeat."""
        self.warnings: list[str] = []
        self.terminated_by: Reply | None = None
        self.unpaid: Failure | None = None
        self._notices: dict[str, list[Message]] = {}

    def set_members(self, present: Sequence[Agent], lead: str) -> None:
        """Continue with these members and this lead; agents that left stay known, for work that they have begun."""
        self.members = Members(present, [self.members.named(name) for name in self.members.names])
        self.lead = self.members.named(lead)
        self.team = Roster(tuple(one.name for one in present), lead, self.team.helpers)

    @property
    def finisher(self) -> Agent:
        """The agent that finishes the task where the plan fails: the one that is declared and has not left."""
        name = self.options.fallback
        is_here = name in self.team.members or name in self.team.helpers
        return self.members.named(name) if name is not None and is_here else self.lead

    @property
    def is_over(self) -> bool:
        """Whether a member ended the team, or the budget does not cover more work."""
        return self.has_ended or self.unpaid is not None

    @property
    def has_ended(self) -> bool:
        """Whether a member ended the team."""
        return self.terminated_by is not None

    def receive(self, ending: Reply | Failure, phase: Step | None = None) -> Reply | Failure:
        """Note what the end of an ask means for the team, and return it.

        Where the limits of a phase may be the reason, work that is not covered is a failure of that phase alone.
        """
        if isinstance(ending, Reply):
            if ending.signal == "terminate" and self.terminated_by is None:
                self.terminated_by = ending
        elif is_unaffordable(ending) and self.unpaid is None and (phase is None or phase.limits is None):
            self.unpaid = ending
        return ending

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings, each once."""
        self.warnings += (text for text in texts if text not in self.warnings)

    def announce(self, names: Iterable[str], text: str) -> None:
        """Let these members read a notice in each of their further turns."""
        for name in names:
            self._notices.setdefault(name, []).append(Message(name=NOTICE, content=text, role="user"))

    def expert_turn(self, phase: Step, expert: str, task: str | None, number: int) -> Turn:
        """Return the turn of an expert: notices about the plan, the results that the phase needs, and the task.

        Raises `ExpressionFailed` if the task can't be rendered.
        """
        notices = list(self._notices.get(expert, ()))
        if self.options.proposals and expert != self.team.lead:
            notices.append(Message(name=NOTICE, content=PROPOSE, role="user"))
        inputs = self.inputs_of(phase)
        output = partial(self._joined_output, phase) if phase.needs else None
        own = self.task_of(phase, task)
        return turn_with_context(self.task, StepInput(phase, number, own, inputs, output), notices)

    def task_of(self, phase: Step, task: str | None = None) -> str | None:
        """Return the task of a phase or a part, rendered; None where it is that of the team."""
        text = phase.task if task is None else task
        return None if text is None else Template(text).render(self.variables(phase))

    def inputs_of(self, phase: Step) -> list[Message]:
        """Return the results that a phase needs, under the ids of their phases."""
        return [as_message(need, self.results[need]) for need in phase.needs if need in self.results]

    def variables(self, phase: Step, *, full: bool = False) -> dict[str, JsonValue]:
        """Return the variables of a phase's task; with `full`, of its condition, which reads replies in full."""
        found = {need: self.results[need] for need in phase.needs if need in self.results}
        replies = {need: reply.full for need, reply in found.items()} if full else found
        return phase_variables(self.task.text, replies, {} if self.plan is None else self.plan.variables)

    def _joined_output(self, phase: Step) -> str:
        inputs = self.inputs_of(phase)
        if len(phase.needs) == len(inputs) == 1:
            return inputs[0].content
        return to_json({one.name: result_of(self.results[one.name]) for one in inputs}).decode()

    def lead_turn(
        self, text: str, history: Sequence[Message], schema: JsonSchema | None = None, *, closing: bool = False
    ) -> Turn:
        """Return a turn of the lead about the work of the team."""
        task = f"{text}\n\nThe task of the team:\n{self.task.text}"
        said = History.of((*self.task.history, *history))
        files = self.task.attachments
        return Turn(task, said, 1, "coordinate", output_schema=schema, attachments=files, closing=closing)

    async def consult(
        self,
        text: str,
        history: Sequence[Message],
        ctx: Context,
        key: str,
        schema: JsonSchema,
        read: Callable[[Reply], T | ParseFailure],
        phase: Step | None = None,
    ) -> T | None:
        """Return what the lead decides; it is asked once more, with the reason, if its answer can't be used.

        None if it failed, ended the team, or gave no usable answer. Within a `phase`, its limits apply.
        """
        problem = ""
        for place in () if self.is_over else (key, f"{key}-again"):
            asked = f"{text}\n\nYour last answer could not be used: {problem}. Answer again." if problem else text
            turn = self.lead_turn(asked, history, schema)
            reply = self.receive(await ctx.ask(self.lead, turn, key=place), phase)
            if isinstance(reply, Failure):
                self.warn(reply.skipped)
                return None
            self.warn(reply.lasting_warnings)
            if self.has_ended:
                return None
            found = read(reply)
            if not isinstance(found, ParseFailure):
                return found
            problem = found.problem
            if place == key:
                await ctx.emit(TeamReplyRejected(member=self.team.lead, problem=problem), key=f"{key}-problem")
        if problem:
            self.warn([f"the answer of {self.team.lead!r} could not be used, also when asked again: {problem}"])
        return None

    @property
    def order(self) -> Sequence[str]:
        """The phases in topological order, and last those that a change removed."""
        steps = () if self.plan is None else self.plan.steps
        planned = StepGraph.from_nodes(nodes_of(steps)).order
        return list(dict.fromkeys((*planned, *(phase for phase, _, _ in sorted(self.said)))))

    @property
    def conversation(self) -> list[Reply]:
        """Every reply that is part of the conversation, in the order of the plan."""
        positions = {id_: position for position, id_ in enumerate(self.order)}
        return [self.said[key] for key in sorted(self.said, key=lambda key: (positions[key[0]], key))]

    def replies_of(self, phase: str, attempt: int) -> list[Reply]:
        """Return the replies of an attempt at a phase, in order."""
        return [self.said[key] for key in sorted(self.said) if key[:2] == (phase, attempt)]

    def unfinished(self, phase: str) -> list[Message]:
        """Return the work that a phase without a result has so far."""
        if phase in self.results:
            return []
        found = {place: self.said[id_, number, place] for id_, number, place in sorted(self.said) if id_ == phase}
        return [as_message(f"{phase}-{place}", reply) for place, reply in found.items() if place != LAST]

    def learnt(self) -> list[Message]:
        """Return the results of all phases and, where there is none, the work on a phase so far, in plan order."""
        found: list[Message] = []
        for phase in self.order:
            if phase in self.results:
                found.append(as_message(phase, self.results[phase]))
            else:
                found += self.unfinished(phase)
        return found


def phase_variables(
    task: str, replies: Mapping[str, Reply], variables: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the values of `PHASE_VARIABLES`: the task of the team, the replies that a phase needs, and the plan's."""
    return {
        "task": task,
        "outputs": {need: reply.text for need, reply in replies.items()},
        "data": {need: reply.data for need, reply in replies.items() if reply.data is not None},
        "failed": [],
        "variables": dict(variables),
    }


def as_message(name: str, reply: Reply) -> Message:
    """Return a reply as a message under another name; one with an envelope stays one."""
    return Message(name=name, content=reply.text) if reply.whole is None else reply.messages[-1].changed(name=name)


@dataclass(frozen=True, slots=True)
class PhaseAttempt:
    """The `number`th attempt at a phase; `position` is that of the phase in the plan.

    `may_retry` is false where an attempt before it has used up the retries of an expert.
    """

    state: CollaborationState
    phase: Step
    number: int
    position: int
    may_retry: bool = True

    def turn(self, expert: str, task: str | None = None) -> Turn:
        """Return the turn of an expert, with the task of the phase or another one."""
        return self.state.expert_turn(self.phase, expert, task, self.position)

    async def ask(self, expert: Agent, turn: Turn, ctx: Context, key: str, place: int, at: str = "") -> Work | Failure:
        """Ask an expert for work; `at` is the branch of the phase in which the context is."""
        if not self.may_retry:
            turn = replace(turn, may_retry=False)
        reply = self.state.receive(await ctx.ask(expert, turn, key=key), self.phase)
        if isinstance(reply, Failure):
            return reply
        self.state.said[self.phase.id, self.number, place] = reply
        return Work(expert, turn, f"{at}/{key}" if at else key, reply, place)

    async def ask_lead(self, text: str, results: Sequence[Message], ctx: Context, key: str) -> Work | Failure:
        """Let the lead make one result of several."""
        history = [*self.state.inputs_of(self.phase), *results]
        turn = self.state.lead_turn(f"{text}\n\n{self.about}", history)
        return await self.ask(self.state.lead, turn, ctx, key, LAST)

    @property
    def about(self) -> str:
        """The phase, as the lead reads it."""
        return phase_text(self.phase, self.state.task_of(self.phase))

    @property
    def stopped(self) -> Failure:
        """What an attempt returns that ended with its team."""
        return self.state.unpaid or Failure(member=self.phase.id, error="stopped", message="the team has ended")
