"""A guest: an agent of another framework, whose loop is its own, as a member of a team.

With a model of ours, each request of its loop is an effect: its cost is reserved before and its answer recorded. A
guest that calls models of its own takes its whole turn as one effect, for which a ceiling is reserved.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple, TypeVar, Unpack, cast

from msgspec import convert
from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.constructor_arguments import Mistakes, check_instance
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prices_and_tokenizers import cost_of
from teamwright.agents.settings import AgentKeywords
from teamwright.errors import AgentError, UsageError
from teamwright.guests.turn import GuestSettings, GuestTurn
from teamwright.install_command import installer
from teamwright.values.call_limits import MAX_BYTES, MOST_REQUESTS
from teamwright.values.limits import NOTHING, Spend, Usage
from teamwright.values.specs.models import AnyModel, ServerModel
from teamwright.values.turns.turn import Reply, Turn

T = TypeVar("T")
Options = Mapping[str, Any]
TURN_SECONDS = 600.0
"""How long a turn as one effect may take, unless the guest has a `timeout`."""


class Framework(NamedTuple):
    """A framework: the package that installs it, the module and class of its agents, and what one is called.

    `gap` says what of our promises does not hold for its guests, though their requests go to a model of ours.
    """

    package: str
    module: str
    type: str
    what: str
    gap: str = ""


class GuestAnswer(NamedTuple):
    """What a guest answered, and what its own models reported of their usage; `None` if nothing did."""

    value: object
    usage: Usage | None = None


class Guest(FunctionAgent):
    """An agent of another framework as a member.

    `model` is the model of its requests, as for a `ModelAgent`. Without it the guest calls models of its own, and its
    turn reserves the tokens and the money of `ceiling`. `input` makes of the turn what the guest is given, by default
    the text of the turn; `output` makes the reply of what it returns; and `options` are passed to each of its runs.
    `max_requests` bounds the requests of a turn (50).
    """

    kind = "guest"
    framework: ClassVar[Framework]

    def __init__(
        self,
        name: str,
        guest: Any,
        *,
        model: AnyModel | None = None,
        ceiling: Spend | None = None,
        input: Callable[[Turn], Any] | None = None,
        output: Callable[[Any], Any] | None = None,
        options: Options | None = None,
        max_requests: int | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None:
        super().__init__(name, self._respond, **settings)
        owner, mistakes = f"The guest {name!r}", Mistakes()
        mistakes.collect(_check_guest, owner, guest, self.framework)
        mistakes.collect(check_instance, owner, "ceiling", ceiling, Spend)
        mistakes.collect(_check_payer, owner, model, ceiling)
        self.max_requests = max_requests or MOST_REQUESTS
        self.model_agent: ModelAgent | None = None
        if model is not None:
            self.model_agent = mistakes.collect(self.agent_of, model)
        mistakes.raise_all()
        self.guest: Any = guest
        self.options = dict(options or {})
        self.ceiling, self.input, self.output = ceiling, input, output

    @property
    def secrets(self) -> frozenset[str]:
        """The keys of its model, which no declaration has."""
        if self.model_agent is None:
            return frozenset()
        model = self.model_agent.model
        key = model.api_key if isinstance(model, ServerModel) else None
        return self.model_agent.secrets | ({key} if key else frozenset())

    async def preflight(self, models: Models) -> list[str]:
        """Return what its model lacks, without a request."""
        return [] if self.model_agent is None else await self.model_agent.preflight(models)

    def agent_of(self, model: AnyModel) -> ModelAgent:
        """Return an agent that makes the requests of this guest to a model."""
        return ModelAgent(
            self.name, model=model, timeout=self._timeout, retry=self.policy.retry, max_bytes=self.policy.max_bytes
        )

    @abstractmethod
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        """Run the loop of the guest; with a model of ours, its requests go through the turn."""
        ...

    def given(self, turn: Turn) -> Any:
        """What the guest is given for a turn."""
        return turn.prompt if self.input is None else self.input(turn)

    async def _respond(self, turn: Turn, ctx: Context) -> Reply | JsonValue:
        if self.ceiling is None:
            return cast("JsonValue", (await self._take_turn(turn, ctx)).value)
        effect = Effect(
            kind="function",
            name=self.name,
            request=turn.digest,
            call=partial(self._call_whole, turn, ctx),
            retry=self.policy.retry,
            timeout=self._timeout,
            default_timeout=TURN_SECONDS,
            max_bytes=self.policy.max_bytes or MAX_BYTES,
            ceiling=self.ceiling,
        )
        returned = await ctx.effect("call", effect)
        return convert(returned.value, Reply) if returned.form == "reply" else returned.value

    async def _call_whole(self, turn: Turn, ctx: Context, _: Attempt) -> Returned:
        try:
            answer = await self._take_turn(turn, ctx)
        except AgentError as error:
            error.unknown_cost = True
            raise
        usage = answer.usage or NOTHING
        value = self._recordable(answer.value)
        if isinstance(value, Reply):
            return Returned(self._jsonable(value), value.usage + usage, form="reply")
        return Returned(value, usage, form="data")

    async def _take_turn(self, turn: Turn, ctx: Context) -> GuestAnswer:
        settings = GuestSettings(self.name, self.framework.what, self.model_agent, self.agent_of, self.max_requests)
        async with GuestTurn(settings, ctx) as guest_turn:
            try:
                answer = await self.run(self.given(turn), guest_turn)
            except (Exception, SystemExit) as error:
                raise guest_turn.failure(error) from error
            guest_turn.check()
        value = answer.value if self.output is None else self.output(answer.value)
        return answer._replace(value=value)


def total_usage(tokens: Mapping[str, tuple[int, int]]) -> Usage | None:
    """Return the usage of models by their names, of input and output tokens each; `None` if nothing was reported.

    It has a price if that of each model is known.
    """
    total = NOTHING
    for model, (input_tokens, output_tokens) in tokens.items():
        used = Usage(requests=1, input_tokens=input_tokens, output_tokens=output_tokens)
        total += used.changed(usd=cost_of(model, used))
    if any(cost_of(model, Usage(1, *used)) is None for model, used in tokens.items()):
        total = total.changed(usd=None)
    return total if tokens else None


def _check_guest(owner: str, guest: object, framework: Framework) -> None:
    """Raise `UsageError` unless the object is what the framework makes."""
    package, module, name, what, _ = framework
    if module.partition(".")[0] not in sys.modules and not find_spec(module.partition(".")[0]):
        raise UsageError(f"{owner} needs the package {package!r}: run  {installer(by_uv=False)} {package}")
    made = getattr(sys.modules.get(module), name, None)  # who has an object of it has imported it
    if not isinstance(made, type) or not isinstance(guest, made):
        raise UsageError(f"{owner} must be {what}, not {guest!r:.100}.")


def _check_payer(owner: str, model: object, ceiling: Spend | None) -> None:
    if model is None and (ceiling is None or (ceiling.tokens is None and ceiling.usd is None)):
        raise UsageError(
            f"{owner} needs a model, such as  model='openai:gpt-5-mini', or if it calls models of its own the most that"
            " one turn may cost:  ceiling=Limits(tokens=…, usd=…)"
        )
    if model is not None and ceiling is not None:
        raise UsageError(f"{owner} has a model and a ceiling: each request to the model is bounded; keep one of them.")
