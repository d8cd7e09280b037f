"""The lead of a team: what it has heard, the questions it gets, and the answer it composes.

The message of a failure is never forwarded; other members only learn that there is no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.parts import part_turn
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.steps.step_outputs import StepInput, StepOutputs
from teamwright.strategies.protocol import Task
from teamwright.strategies.team_conversation import BUDGET, TeamConversation, is_unaffordable
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.envelope import EnvelopeLimits
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

DEFAULT_LIMITS = EnvelopeLimits.model_construct()
ANSWER = "Your team has worked through its plan; what came of the steps stands above. Put the answer together."
ANSWER_KEY = own_key("answer")


class Lead:
    """The lead. `ended` is what ends the team: a failure of the lead, or a reply that terminates.

    A failed coordination turn does not fail the team: it becomes a warning, and the work continues.
    """

    def __init__(self, agent: Agent, task: Task) -> None:
        self.agent = agent
        self.ended: Reply | Failure | None = None
        self.warnings: list[str] = []
        self.short_of_budget = False
        self._task = task
        self._turn_count = 0
        self._transcript = Conversation()
        self._transcript.extend(task.history)
        self._unseen: list[Message] = []
        self._last_briefing: tuple[Message, ...] = ()

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages of other members for its next turn."""
        for message in messages:
            self._transcript.append(message)
            self._unseen.append(message)

    async def brief(self, text: str, ctx: Context, key: str, besides: Iterable[Message] = ()) -> Message | None:
        """Return what the lead tells its workers; None if it said nothing or ended the team."""
        reply = await self.ask(text, ctx, key, besides=besides, envelope_limits=forwarded_limits(self._task))
        if reply is None or not reply.messages:
            return None
        self._last_briefing = reply.messages[-1:]
        self._transcript.extend(self._last_briefing)
        return reply.messages[-1]

    async def ask(
        self,
        text: str,
        ctx: Context,
        key: str,
        *,
        besides: Iterable[Message] = (),
        envelope_limits: EnvelopeLimits | None = None,
        output_schema: JsonSchema | None = None,
    ) -> Reply | None:
        """Ask the lead; return None if it failed or ended the team.

        With `share: transcript` it gets everything it has heard. Otherwise it gets only what is new and, with
        `share: a2a_lite`, its own last briefing and `besides`, so that its prompt does not grow with the work.
        """
        turn = self._turn(text, self._history(besides), output_schema, envelope_limits)
        self._unseen.clear()
        reply = await ctx.ask(self.agent, turn, key=key)
        if isinstance(reply, Failure):
            if reply.optional:
                self.note_failure(reply)
            else:
                self.ended = reply
            return None
        self.note_warnings(reply)
        return None if self.note_termination(reply) else reply

    def note_termination(self, reply: Reply) -> bool:
        """Record the first reply that terminates the team; return whether this one does."""
        if reply.signal == "terminate" and self.ended is None:
            self.ended = reply
        return reply.signal == "terminate"

    def note_warnings(self, reply: Reply) -> None:
        """Add the warnings of a reply that is not the result of a step."""
        self.warnings += (text for text in reply.lasting_warnings if text not in self.warnings)

    def note_failure(self, failure: Failure) -> None:
        """Add warnings for a coordination turn that failed."""
        self.warnings += (text for text in failure.skipped if text not in self.warnings)
        self.short_of_budget = self.short_of_budget or failure.error == BUDGET

    async def finish(self, outputs: StepOutputs, key: str, ctx: Context) -> Outcome:
        """Let the lead compose the answer from the results of the steps; return the outcome."""
        talk = TeamConversation(self._task)
        ended = outputs.results.finish(talk, outputs.graph.order, closes=True)
        talk.warnings += self.warnings
        talk.short_of_budget = talk.short_of_budget or self.short_of_budget
        if ended is not None:
            return ended.changed(warnings=tuple(talk.warnings))
        if is_unaffordable(self.ended):
            talk.cut_short(self.ended)
        elif isinstance(self.ended, Failure):
            return talk.failed(self.ended)
        if isinstance(self.ended, Reply):
            talk.add(self.ended)
            return talk.ended("terminated")
        if not outputs.results.replies:
            return talk.ended("done", "every step was skipped")
        history = self._transcript.history()
        if self._task.settings.share == "output":
            history = History.of(map(outputs.message_of, outputs.final_steps))
        turn = replace(self._turn(ANSWER, history), closing=True)
        reply = await ctx.ask(self.agent, turn, key=key)
        return talk.receive(reply) or talk.ended("done")

    def _history(self, besides: Iterable[Message]) -> History:
        match self._task.settings.share:
            case "transcript":
                return self._transcript.history()
            case "output":
                return History.of(self._unseen)
            case "a2a_lite":
                return History.of((*self._task.history, *self._last_briefing, *besides, *self._unseen))

    def _turn(
        self,
        text: str,
        history: History,
        output_schema: JsonSchema | None = None,
        envelope_limits: EnvelopeLimits | None = None,
    ) -> Turn:
        self._turn_count += 1
        task = f"{text}\n\nThe task of the team:\n{self._task.text}"
        return Turn(
            task,
            history,
            self._turn_count,
            "coordinate",
            output_schema=output_schema,
            envelope_limits=envelope_limits,
            attachments=self._task.attachments,
        )


def forwarded_limits(task: Task) -> EnvelopeLimits | None:
    """Return the envelope limits for replies that are forwarded to other members; None unless `share: a2a_lite`."""
    return DEFAULT_LIMITS if task.settings.share == "a2a_lite" else None


def turn_with_context(task: Task, step_input: StepInput, context: Sequence[Message]) -> Turn:
    """Return the turn of a step with messages besides the results it needs."""
    if context and step_input.output is not None and step_input.own_task is None and task.settings.share == "output":
        return Turn(step_input.output(), History.of(context), step_input.number)
    return part_turn(
        task, step_input.number, (*context, *step_input.inputs), step_input.output, own_task=step_input.own_task
    )
