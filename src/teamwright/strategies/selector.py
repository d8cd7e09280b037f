"""An agent chooses the next speaker, turn by turn.

Its prompt holds the candidates; the conversation and the task precede it as messages unless the template contains them,
so by default no turn contains a copy of the conversation. The choice is read in a fixed order: structured output, the
exact name, the name in other case, one name in prose. Any other reply is unclear, with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from teamwright.agents.agent import Context, Workspace
from teamwright.errors import ExpressionFailed
from teamwright.strategies.edges import Edge, RouteHistory, arrows_of, edge_flaws
from teamwright.strategies.expressions import Template
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    ExpectedAsks,
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
from teamwright.strategies.team_conversation import (
    Handoffs,
    TeamConversation,
    handoff_arrows,
    stop_at_limit,
    turn_estimate,
)
from teamwright.values.events.team import TeamSelected
from teamwright.values.specs.tools import AgentName
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import EMPTY, Conversation, History, Message, quote_headers, with_header
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import Value

MOST_SHOWN = 80
MOST_READ = 100_000
_WORD = re.compile(r"[\w.-]+", re.ASCII)
"""Words that may be names, with punctuation that may surround a name but is also part of some."""

How = Literal["structured", "exact", "case", "mention"]


class SelectorChoice(NamedTuple):
    """The chosen member, and how it was read."""

    name: str
    how: How


class UnclearChoice(NamedTuple):
    """Why a reply names no candidate."""

    reason: str


class Selection(BaseModel):
    """The structured output of a selector."""

    model_config = ConfigDict(extra="ignore")

    member: str


def selection_schema(names: Sequence[str]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a selection among these names."""
    member: JsonValue = {"type": "string", "enum": list[JsonValue](names), "description": "who speaks next"}
    return {"type": "object", "properties": {"member": member}, "required": ["member"], "additionalProperties": False}


def read_selection(reply: Reply, candidates: Sequence[str], members: Sequence[str]) -> SelectorChoice | UnclearChoice:
    """Return the candidate that a reply names; the other members only improve the reason of a failure."""
    found = read_answer(reply, _selection())
    if isinstance(found, ParseFailure):
        return _read(reply.text[:MOST_READ], candidates, members, "exact")
    return _read(found.member, candidates, members, "structured")


@cache
def _selection() -> TypeAdapter[Selection]:
    return TypeAdapter(Selection)


def _read(text: str, candidates: Sequence[str], members: Sequence[str], exact: How) -> SelectorChoice | UnclearChoice:
    answer = text.strip()
    if answer in candidates:
        return SelectorChoice(answer, exact)
    plain = answer.casefold()
    alike = [name for name in candidates if name.casefold() == plain]
    if len(alike) == 1:
        return SelectorChoice(alike[0], "case")
    words = _words(answer)
    mentioned = [name for name in candidates if name in words]
    if not mentioned:
        folded = {word.casefold() for word in words}
        mentioned = [name for name in candidates if name.casefold() in folded]
    if len(mentioned) == 1:
        return SelectorChoice(mentioned[0], "mention")
    return UnclearChoice(
        _reason(answer, mentioned, [name for name in members if name in words and name not in candidates])
    )


def _words(text: str) -> set[str]:
    """Return the words of a text, with and without surrounding punctuation; a longer name hides one within it."""
    found = set(_WORD.findall(text))
    return found | {word.strip("._-") for word in found}


def _reason(answer: str, mentioned: Sequence[str], excluded: Sequence[str]) -> str:
    if not answer:
        return "the answer is empty"
    shown = cut(answer, MOST_SHOWN)
    if mentioned:
        return f"the answer {shown!r} names {len(mentioned)} of those who may speak"
    if excluded:
        return f"the answer {shown!r} names {excluded[0]!r}, who may not speak now"
    return f"the answer {shown!r} names nobody who may speak"


PROMPT = """\
You lead the conversation above and decide who speaks next. These may speak: {{ roles }}.

Choose the one who can now bring the task forward most. Answer with one of these names and nothing else: \
{{ participants }}"""

ARK_FIELDS = {"Participants": "participants", "Roles": "roles", "History": "history"}
NAMES = (*ARK_FIELDS.values(), "task")
MOST_HISTORY = 200_000
"""How many characters of the conversation a prompt contains; a longer one is cut at its start."""


def prompt_problem(prompt: str) -> str | None:
    """Return what is wrong with a prompt template. Called before a run."""
    return Template(prompt, ARK_FIELDS).problem(NAMES)


class SelectorPrompt:
    """The prompts of one conversation. With `share: output`, the conversation is only the previous reply."""

    def __init__(self, task: Task, members: Members, prompt: str) -> None:
        self._task, self._members = task, members
        self._template = Template(prompt, ARK_FIELDS)
        self._fields = self._template.uses
        self._shares_all = task.settings.share != "output"
        self._latest: tuple[Message, ...] = ()
        self._messages = self._initial_messages(task.history)

    def add(self, reply: Reply) -> None:
        self._latest = reply.messages[-1:]
        if not self._shares_all:
            self._messages = self._initial_messages(EMPTY)
        if "history" not in self._fields:
            self._messages.extend(reply.messages if self._shares_all else self._latest)

    def turn(self, candidates: Sequence[str], number: int, history: History) -> Turn:
        """Return the turn in which the selector chooses among these candidates."""
        values: dict[str, JsonValue] = {
            "participants": ", ".join(candidates),
            "roles": ", ".join(introduction(self._members.named(name)) for name in candidates),
            "history": self._history_text(history) if "history" in self._fields else "",
            "task": self._task_text(),
        }
        return Turn(
            self._template.render(values),
            self._messages.history(),
            number,
            purpose="coordinate",
            output_schema=selection_schema(candidates),
            quotes_task="history" not in self._fields,
            attachments=self._task.attachments if "task" in self._fields else (),
        )

    def _initial_messages(self, history: History) -> Conversation:
        """Return the messages before the first prompt: conversation and task, unless the template contains them."""
        messages = Conversation()
        if "history" not in self._fields:
            messages.extend(history)
        if "task" not in self._fields:
            messages.append(self._task.message)
        return messages

    def _history_text(self, history: History) -> str:
        """Return the end of the conversation as text, as much as a prompt may contain."""
        pieces: list[str] = []
        remaining = MOST_HISTORY
        for message in reversed(history if self._shares_all or not self._latest else self._latest):
            piece = self._message_text(message)
            remaining -= len(piece)
            if remaining < 0:
                pieces.append("(what was said before is left out)")
                break
            pieces.append(piece)
        return "\n\n".join(reversed(pieces))

    def _message_text(self, message: Message) -> str:
        return with_header(message.name, message.content, self._members.names)

    def _task_text(self) -> str:
        """Return the task, quoted if the prompt also contains the conversation, so that it cannot imitate a message."""
        if "history" not in self._fields:
            return self._task.text
        return quote_headers(self._task.text, self._members.names)


class SelectorOptions(Value):
    """The agent that chooses, its prompt, and the edges between members."""

    agent: AgentName | None = Field(default=None, description="the agent that chooses who speaks next")
    prompt: str = Field(
        default=PROMPT,
        min_length=1,
        description="the prompt: a template over `participants`, `roles`, `history` and `task`, or in ARK syntax"
        " `{{.Participants}}`, `{{.Roles}}` and `{{.History}}`",
    )
    allow_repeat: bool = Field(default=False, description="whether a member may speak twice in a row")
    edges: tuple[Edge, ...] = Field(
        default=(), description="which member may follow which; without any, each may follow every other"
    )


class Selector(Strategy):
    """A conversation in which an agent chooses each next speaker; it is not asked when only one may speak.

    A reply that names no candidate falls back to the first candidate, and an event says why. A member that a handoff
    names speaks next without a choice, whatever the edges say.
    """

    name = "selector"
    version = 1
    options = SelectorOptions
    takes_handoffs = True

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the team has a limit, an agent that chooses if one is needed, and a valid prompt."""
        options = settings.read(SelectorOptions)
        found = edge_flaws(options.edges)
        if settings.max_turns is None:
            found.append(Issue("'selector' needs max_turns, the number of turns after which it stops"))
        if len({member.name for member in members}) < len(members):
            found.append(Issue("'selector' chooses among members by name, but one is listed twice"))
        if options.agent is None and _needs_choice(options, members):
            found.append(
                Issue("'selector' needs an agent that chooses: declare one and write  selector: {agent: NAME}")
            )
        if problem := prompt_problem(options.prompt):
            found.append(Issue(problem, ("prompt",)))
        for index, edge in enumerate(options.edges):
            if edge.source == edge.to and not options.allow_repeat and len(members) > 1:
                text = f"an edge from {edge.to!r} to itself is never taken without allow_repeat: true"
                found.append(Issue(text, ("edges", index)))
        return found

    def lead(self, settings: Settings, members: Members) -> str | None:
        return settings.read(SelectorOptions).agent

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the agent that chooses, the members, and the edges between them."""
        options = settings.read(SelectorOptions)
        nodes, arrows = places(members), (*arrows_of(options.edges), *handoff_arrows(members))
        if options.agent is None:
            return Diagram(nodes=nodes, arrows=arrows)
        chooser = Node(id="select", agent=options.agent, about="chooses who speaks next")
        chosen = (Arrow(source=chooser.id, to=node.id, label="chooses") for node in nodes)
        return Diagram(nodes=(chooser, *nodes), arrows=(*chosen, *arrows))

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        return turn_estimate(settings.max_turns)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Choose a speaker and ask it, until the conversation ends."""
        run, handoffs = SelectorRun(task, members, ctx.workspace), Handoffs(members)
        talk, limit = run.talk, task.settings.max_turns
        named: str | None = None
        for number in count(1):
            try:
                edges = run.candidates() if named is None else {named: None}
                if not edges:
                    return talk.ended("done")
                if limit is not None and number > limit:
                    return stop_at_limit(talk, task.settings, f"{limit} turns")
                chosen = named or await run.choose(list(edges), number, ctx)
                if isinstance(chosen, Outcome):
                    return chosen
                member = members.named(chosen)
                turn = handoffs.with_targets(member, run.turn(number, edges[chosen]))
                reply = await ctx.ask(member, turn, key=f"turn-{number}/{chosen}")
                if ended := run.record(chosen, reply):
                    return ended
                named = await handoffs.next_speaker(member, reply, ctx)
            except ExpressionFailed as error:
                return talk.failed(Failure(member="", error=error.kind, message=str(error)))
        raise AssertionError("counting never ends")


class SelectorRun:
    """The state of one run: the conversation, the candidates and the choices."""

    def __init__(self, task: Task, members: Members, workspace: Workspace) -> None:
        self.talk = TeamConversation(task, alone=len(members) == 1)
        self._options = task.settings.read(SelectorOptions)
        self._members = members
        self._names = [member.name for member in members]
        self._route = RouteHistory(task, members, self._options.edges, workspace)
        self._prompt = SelectorPrompt(task, members, self._options.prompt)

    def candidates(self) -> dict[str, Edge | None]:
        """Return the members that may speak next, in order, each with the edge that leads to it."""
        last = self._route.last
        ways: dict[str, Edge | None] = dict.fromkeys(self._names)
        if last is not None and self._options.edges:
            open_ = {edge.to: edge for edge in reversed(list(self._route.open_edges()))}
            ways = {name: open_[name] for name in self._names if name in open_}
        if last is not None and len(self._names) > 1 and not self._options.allow_repeat:
            ways.pop(last, None)
        return ways

    async def choose(self, candidates: Sequence[str], number: int, ctx: Context) -> str | Outcome:
        """Return the next speaker, or the outcome if the agent that chooses fails or terminates."""
        agent = self._options.agent
        if len(candidates) == 1:
            fact = TeamSelected(member=candidates[0], turn=number, how="only")
        elif agent is None:
            fact = _fallback(candidates, number, "", "there is nobody to choose")
        else:
            turn = self._prompt.turn(candidates, number, self.talk.history)
            reply = await ctx.ask(self._members.named(agent), turn, key=f"select-{number}")
            if ended := self._termination(reply):
                return ended
            fact = self._choice(reply, candidates, number, agent)
        await ctx.emit(fact)
        return fact.member

    def turn(self, number: int, edge: Edge | None) -> Turn:
        turn = self.talk.turn(number)
        return edge.with_task(turn, self._route.shared_variables) if edge else turn

    def record(self, member: str, reply: Reply | Failure) -> Outcome | None:
        """Record the result of a turn; return the outcome if it ends the team."""
        self._route.record(member, reply)
        if isinstance(reply, Failure):
            return self.talk.receive(reply.changed(optional=True) if any(self._route.open_edges()) else reply)
        self._prompt.add(reply)
        return self.talk.receive(reply)

    def _termination(self, reply: Reply | Failure) -> Outcome | None:
        """Return the outcome if the agent that chooses fails or terminates; its last message is the answer."""
        if isinstance(reply, Failure):
            return None if reply.optional else self.talk.failed(reply)
        if reply.signal != "terminate":
            return None
        if reply.text.strip():
            self.talk.add(reply)
        return self.talk.ended("terminated")

    def _choice(self, reply: Reply | Failure, candidates: Sequence[str], number: int, agent: str) -> TeamSelected:
        if isinstance(reply, Failure):
            self.talk.warnings += reply.skipped
            return _fallback(candidates, number, agent, f"{agent!r} failed ({reply.error})")
        self.talk.warn(reply)
        choice = read_selection(reply, candidates, self._names)
        if isinstance(choice, SelectorChoice):
            return TeamSelected(member=choice.name, turn=number, how=choice.how, by=agent)
        return _fallback(candidates, number, agent, choice.reason)


def _fallback(candidates: Sequence[str], number: int, agent: str, reason: str) -> TeamSelected:
    return TeamSelected(member=candidates[0], turn=number, how="fallback", by=agent, reason=reason)


def _needs_choice(options: SelectorOptions, members: Members) -> bool:
    """Return whether there is ever more than one candidate, so that an agent must choose.

    Edges that never diverge form a line, which starts with the first member.
    """
    if not options.edges:
        return len({member.name for member in members}) > 1
    after: dict[str, set[str]] = {}
    for edge in options.edges:
        after.setdefault(edge.source, set()).add(edge.to)
    return any(len(to if options.allow_repeat else to - {last}) > 1 for last, to in after.items())
