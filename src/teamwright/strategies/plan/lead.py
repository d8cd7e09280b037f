"""Work that somebody leads: what the lead has heard, what it is asked, and the answer that it puts together.

What a step failed with is never told to anybody, only that there is no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.strategies.parallel.parts import BUDGET, part_turn
from teamwright.strategies.plan.step_options import ShapeOptions, plan_flaws, template_flaws
from teamwright.strategies.plan.step_runner import Flow, StepInput
from teamwright.strategies.protocol import Flaw, Members, Task
from teamwright.strategies.talk import Talk, lasting_warnings
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import AgentName, JsonSchema
from teamwright.values.specs.plan import Step
from teamwright.values.turns.envelope import EnvelopeLimits
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

TO_BE_TOLD_ON = EnvelopeLimits.model_construct()
ANSWER = "Your team has worked through its plan; what came of the steps stands above. Put the answer together."
ANSWER_KEY = "lead/answer"


class LeadOptions(ShapeOptions):
    """The steps of a plan, and who leads."""

    lead: AgentName | None = Field(
        default=None, description="who leads: a member, or an agent or team beside them; else the first member"
    )

    def lead_of(self, members: Members) -> Agent:
        """Who leads these members."""
        return members[0] if self.lead is None else members.named(self.lead)

    def workers_of(self, members: Members) -> list[Agent]:
        """All others."""
        lead = self.lead_of(members)
        return [member for member in members if member.name != lead.name]

    def flaws(self, name: str, members: Members, least: int) -> list[Flaw]:
        """What is wrong with the steps or with who is there; so many are needed besides the lead."""
        found = [*plan_flaws(self.steps), *template_flaws(self.steps)]
        if not members:
            return found
        workers = self.workers_of(members)
        if len(workers) < least:
            needed = "a member" if least == 1 else f"{least} members"
            found.append(Flaw(f"{name!r} needs {needed} besides {self.lead_of(members).name!r}, who leads"))
        if len({worker.name for worker in workers}) < len(workers):
            found.append(Flaw(f"{name!r} knows each member by its name, but one is listed twice"))
        return found


class Lead:
    """The one who leads. `ended` is what ends the team: a failure of the lead, or the last word of whoever may end it.

    Talk that fails is no work that fails: it is told as a warning, and the work goes on without it.
    """

    def __init__(self, agent: Agent, task: Task) -> None:
        self.agent = agent
        self.ended: Reply | Failure | None = None
        self.warnings: list[str] = []
        self.short_of_budget = False
        self._task = task
        self._asked = 0
        self._minutes = Conversation()
        self._minutes.extend(task.history)
        self._news: list[Message] = []
        self._word: tuple[Message, ...] = ()

    def hear(self, messages: Iterable[Message]) -> None:
        """Take in what others said."""
        for message in messages:
            self._minutes.append(message)
            self._news.append(message)

    async def say(self, text: str, ctx: Context, key: str, besides: Iterable[Message] = ()) -> Message | None:
        """What it tells the others; nothing, if it says nothing or has ended the team."""
        reply = await self.ask(text, ctx, key, besides=besides, handoff=to_be_told_on(self._task))
        if reply is None or not reply.messages:
            return None
        self._word = reply.messages[-1:]
        self._minutes.extend(self._word)
        return reply.messages[-1]

    async def ask(
        self,
        text: str,
        ctx: Context,
        key: str,
        *,
        besides: Iterable[Message] = (),
        handoff: EnvelopeLimits | None = None,
        output_schema: JsonSchema | None = None,
    ) -> Reply | None:
        """What it answers; nothing, if it failed or has ended the team.

        With `share: transcript` it is told all that it has heard. Else only what is new, and with `share: a2a_lite` its
        own last word and what lies `besides` that, so that what it is told does not grow with the work.
        """
        turn = self._turn(text, self._heard(besides), output_schema, handoff)
        self._news.clear()
        reply = await ctx.ask(self.agent, turn, key=key)
        if isinstance(reply, Failure):
            if reply.optional:
                self.miss(reply)
            else:
                self.ended = reply
            return None
        self.note_warnings(reply)
        return None if self.ends(reply) else reply

    def ends(self, reply: Reply) -> bool:
        """Whether what somebody said ends the team."""
        if reply.signal == "terminate" and self.ended is None:
            self.ended = reply
        return reply.signal == "terminate"

    def note_warnings(self, reply: Reply) -> None:
        """Keep the warnings of a reply that is no step's."""
        self.warnings += (text for text in lasting_warnings(reply) if text not in self.warnings)

    def miss(self, failure: Failure) -> None:
        """Take in that somebody could not say what others were to hear."""
        self.warnings += (text for text in failure.skipped if text not in self.warnings)
        self.short_of_budget = self.short_of_budget or failure.error == BUDGET

    async def finish(self, flow: Flow, ctx: Context) -> Outcome:
        """Put the answer together from what came of the steps; the outcome."""
        talk = Talk(self._task)
        ended = flow.parts.end(talk, flow.graph.order)
        talk.warnings += self.warnings
        talk.short_of_budget = talk.short_of_budget or self.short_of_budget
        if ended is not None:
            return ended.changed(warnings=tuple(talk.warnings))
        if isinstance(self.ended, Failure):
            return talk.failed(self.ended)
        if isinstance(self.ended, Reply):
            talk.add(self.ended)
            return talk.ended("terminated")
        if not flow.parts.replies:
            return talk.ended("done", "every step was skipped")
        history = self._minutes.history()
        if self._task.settings.share == "output":
            history = History.of(map(flow.message, flow.ends))
        reply = await ctx.ask(self.agent, self._turn(ANSWER, history), key=ANSWER_KEY)
        return talk.receive(reply) or talk.ended("done")

    def _heard(self, besides: Iterable[Message]) -> History:
        match self._task.settings.share:
            case "transcript":
                return self._minutes.history()
            case "output":
                return History.of(self._news)
            case "a2a_lite":
                return History.of((*self._task.history, *self._word, *besides, *self._news))

    def _turn(
        self,
        text: str,
        history: History,
        output_schema: JsonSchema | None = None,
        handoff: EnvelopeLimits | None = None,
    ) -> Turn:
        self._asked += 1
        asked = f"{text}\n\nThe task of the team:\n{self._task.text}"
        return Turn(asked, history, self._asked, "coordinate", output_schema=output_schema, handoff=handoff)


class WorkerPool:
    """Those who work, so many at once: a step goes to whom it names, or to the active one who has least to do.

    Without `everybody` it does not matter whom a step names.
    """

    def __init__(self, workers: Sequence[Agent], most: int, everybody: Members | None = None) -> None:
        self.most = most
        self._workers, self._everybody = workers, everybody
        self._places = {worker.name: place for place, worker in enumerate(workers)}
        self._at_work: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()

    def active(self, ctx: Context) -> Sequence[Agent]:
        """Those who take steps that name nobody, now."""
        return self._workers[: ctx.posture.width(self.most)]

    def take(self, step: Step, ctx: Context) -> Agent:
        """Who works on a step that begins now."""
        if self._everybody is not None and (step.agent is not None or step.id in self._everybody.names):
            worker = self._everybody.named(step.agent or step.id)
        else:
            worker = min(self.active(ctx), key=self._load)
        self._at_work[worker.name] += 1
        self._taken[worker.name] += 1
        return worker

    def done(self, worker: Agent) -> None:
        """One who took a step is done with it."""
        self._at_work[worker.name] -= 1

    def _load(self, worker: Agent) -> tuple[int, int, int]:
        return self._at_work[worker.name], self._taken[worker.name], self._places[worker.name]


def to_be_told_on(task: Task) -> EnvelopeLimits | None:
    """What a turn asks for whose reply others are told, with `share: a2a_lite`."""
    return TO_BE_TOLD_ON if task.settings.share == "a2a_lite" else None


def told_turn(task: Task, part: StepInput, told: Sequence[Message]) -> Turn:
    """The turn of a step that is told something beside what it needs."""
    if told and part.output is not None and part.own is None and task.settings.share == "output":
        return Turn(part.output(), History.of(told), part.number)
    return part_turn(task, part.number, (*told, *part.inputs), part.output, own=part.own)
