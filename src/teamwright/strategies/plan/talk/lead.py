"""The lead that hands out steps: what it has heard, and what it is asked while the steps run.

The message of a failure is never forwarded; other members only learn that there is no result.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.protocol import Task
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.envelope import EnvelopeLimits
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

DEFAULT_LIMITS = EnvelopeLimits.model_construct()


class Lead:
    """The lead of a team with handouts.

    A failed coordination turn does not fail the team: it becomes a warning, and the work continues.
    """

    def __init__(self, state: PlanState) -> None:
        self._state, self._task = state, state.task
        self._turn_count = 0
        self._transcript = Conversation()
        self._transcript.extend(state.task.history)
        self._unseen: list[Message] = []
        self._last_briefing: tuple[Message, ...] = ()

    @property
    def agent(self) -> Agent:
        """Who leads now."""
        return self._state.team.lead

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
        turn = replace(self._turn(text, self._history(besides), output_schema), envelope_limits=envelope_limits)
        self._unseen.clear()
        reply = await ctx.ask(self.agent, turn, key=key)
        if isinstance(reply, Failure) and not reply.optional:
            self._state.ended_by = reply
            return None
        return self._state.heard(reply)

    def answer_turn(self, text: str) -> Turn:
        """Return the turn in which the lead answers from everything that it has heard."""
        return replace(self._turn(text, self._transcript.history()), closing=True)

    def _history(self, besides: Iterable[Message]) -> History:
        match self._task.settings.share:
            case "transcript":
                return self._transcript.history()
            case "output":
                return History.of(self._unseen)
            case "a2a_lite":
                return History.of((*self._task.history, *self._last_briefing, *besides, *self._unseen))

    def _turn(self, text: str, history: History, schema: JsonSchema | None = None) -> Turn:
        self._turn_count += 1
        return replace(self._state.lead_turn(text, (), schema), history=history, number=self._turn_count)


def forwarded_limits(task: Task) -> EnvelopeLimits | None:
    """Return the envelope limits for replies that are forwarded to other members; None unless `share: a2a_lite`."""
    return DEFAULT_LIMITS if task.settings.share == "a2a_lite" else None
