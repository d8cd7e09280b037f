"""One call to the world: what describes it, what an attempt of it is given, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from pydantic import JsonValue

from teamwright.budget.money import Rate
from teamwright.values.events.agent import EffectKind, ValueForm
from teamwright.values.limits.limits import Pace
from teamwright.values.limits.reply import MAX_BYTES
from teamwright.values.limits.retry import RetryPolicy
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.turns.messages import digest


class Effect(Struct, frozen=True):
    """One call to the world, described so that it can be recorded, paid for, retried and recognised.

    `request` is a digest of what is sent; `prompt_bytes` and `messages` size the reservation of a model request. A call
    that names its `model` waits for its turn there, among all calls of the engine that name it; `pace` says how fast it
    may be called. `rate` says what tokens cost at most, beside a prompt of so many; it is asked only where money is
    bounded. `note` is what the prompt grows by where the call tells that its output cap was cut.

    `default_timeout` holds where neither `timeout` nor a limit on each message does. A text that comes back is cut at
    `max_bytes`; other JSON that is larger fails the call.
    """

    kind: EffectKind
    name: str
    request: str
    call: Callable[[Attempt], Awaitable[Returned]]
    prompt_bytes: int = 0
    messages: int = 0
    max_output: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    model: str = ""
    pace: Pace | None = None
    rate: Callable[[int], Rate | None] | None = None
    note: int = 0
    default_timeout: float | None = None
    max_bytes: int = MAX_BYTES


class Attempt(Struct, frozen=True):
    """What the engine hands to a call.

    `used(mark)` counts the recorded outcomes of this member's calls that carry the mark. `delta` shows a piece of the
    reply to whoever watches. `cut` says that `max_output` is smaller than it should be, since no more is left.
    """

    run_id: str
    number: int
    key: str
    max_output: int | None
    used: Callable[[str], int]
    delta: Callable[[str], None]
    cut: bool = False

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one effect, and for no other."""
        return digest(self.run_id, self.key)


class Returned(Struct, frozen=True):
    """What came back from a call: a JSON value, and what it cost.

    `form` says what the value is, where that is not clear from the call: a whole reply, or data. It is recorded beside
    the value, since nothing inside a value may decide how the value is read.
    `truncated` says that it was cut, and `capped` at how many bytes, where the size cap was the reason.
    """

    value: JsonValue
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None
