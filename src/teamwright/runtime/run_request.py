"""What a caller asks a run for, the keywords of `Engine.run` as one value, and what a new run starts with.

Nothing is recorded or spent here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, TypedDict, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.agents.constructor_arguments import listed, value_of
from teamwright.errors import UsageError
from teamwright.journal.protocol import Journal
from teamwright.teams.team import Team, require_team
from teamwright.values.events.agent import Body
from teamwright.values.events.run import Origin
from teamwright.values.limits import Limits, Spend, SpendForecast
from teamwright.values.owned_paths import UNOWNED, Owned
from teamwright.values.people import CONFIRM_CHOICES, NO, YES, Answer, check_confirmation, confirmation_key
from teamwright.values.retries import Recovery
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn
from teamwright.values.value import misfit_of

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.agents.attachments import Attachment, AttachmentLike
    from teamwright.history.run_history import Checkpoint
    from teamwright.journal.tenant_budgets import BudgetClaim


Confirmation = Answer | str | bool
"""The answer of a function: an `Answer`, `"yes"` or `"no"`, or whether the run may begin."""
Confirmer = Callable[[SpendForecast], Confirmation | Awaitable[Confirmation]]
"""Answers for a person whether a run with this forecast may begin."""
Forecaster = Callable[[Journal, Team, str, Limits | None, "Sequence[Attachment]"], Awaitable[SpendForecast]]

LARGEST_TASK = 1024 * 1024
"""Bytes of a task."""


class RunOptions(TypedDict, total=False):
    """The keywords of `Engine.run`, `start` and `stream`, and of `run_sync`.

    `limits` apply to the whole run, across all its drivers, in addition to those of its team. The run continues the run
    `continues`, or is the next turn of `conversation`; with both, it begins that conversation. `history` is what was
    said before, where no recorded run holds it: also before the first turn of a conversation.

    `attachments` are files that go with the task: paths, or `Attachment` values for contents in memory. They are read
    at the start; the run never reads them again.

    With `confirm=True` a person confirms the forecast of the run before it spends anything, with `confirm=Spend(…)`
    only if the forecast is above it: the run is paused until `runs.answer` has answered. `confirm` may be a function
    that gets the `SpendForecast` and answers at once.

    `budget` names the budget of a tenant, of which the run reserves the most that its limits let it spend; a start
    raises `BudgetUnavailable` if there is no room for it.
    """

    run_id: str | None
    history: Sequence[Message]
    continues: str | None
    conversation: str | None
    limits: Limits | None
    attachments: Sequence[AttachmentLike]
    confirm: bool | Spend | Confirmer
    budget: str | None


class ForkOptions(TypedDict, total=False):
    """The keywords of `Engine.fork` and `start_fork`.

    `at` is a checkpoint, its name, a key (its last turn is used), or the number of an event. `retry` goes back to just
    before the member that failed. Without `at`, a run that was stopped from outside (by budget, time or cancel) is
    forked from just before the stop. `limits` replace the run's limits of the same kind, and those of its outermost
    team unless `team` is given.
    """

    at: int | str | Checkpoint | None
    retry: bool
    team: Agent | None
    task: str | None
    new_id: str | None
    limits: Limits | None


RUN_OPTIONS, FORK_OPTIONS = RunOptions.__optional_keys__, ForkOptions.__optional_keys__


class RunRequest(Struct, frozen=True):
    """What a caller asks a run for, whether it is started or exists already. The fields are those of `RunOptions`."""

    team: Agent
    task: str
    run_id: str | None = None
    history: Sequence[Message] = ()
    continues: str | None = None
    conversation: str | None = None
    limits: Limits | None = None
    attachments: Sequence[AttachmentLike] = ()
    confirm: bool | Spend | Confirmer = False
    budget: str | None = None

    def checked(self) -> RunRequest:
        """Return the request with its team and its values; raises `UsageError` for what is wrong or too large."""
        limits = check_start(self.task, self.history, self.limits)
        return replace(self, team=require_team(self.team), limits=limits, confirm=_checked_confirm(self.confirm))


def _checked_confirm(confirm: bool | Spend | Confirmer) -> bool | Spend | Confirmer:
    if isinstance(confirm, Spend | Mapping):
        return value_of("The run", "confirm", cast("Spend", confirm), Spend) or False
    if not isinstance(confirm, bool) and not callable(confirm):
        raise UsageError(
            f"confirm must be True, an amount, or a function that gets the forecast and answers, and is {confirm!r}."
        )
    return confirm


class ConfirmRequest(Struct, frozen=True):
    """What a caller says about the confirmation of a run.

    `confirm` is True to ask in any case, an amount that replaces the one that the team declares, or a function that
    answers. A function is always asked, or above the amount of the team alone, as a person would be.
    """

    confirm: bool | Spend | Confirmer = False

    def is_about(self, team: Team) -> bool:
        """Whether a run of this team may need a confirmation, so that a forecast has to be made."""
        return self.confirm is not False or self._amount(team) is not None

    def _amount(self, team: Team) -> Spend | None:
        if isinstance(self.confirm, Spend):
            return self.confirm
        return None if team.policy.confirm is None else team.policy.confirm.above

    async def forecast_and_answer(
        self, journal: Journal, team: Team, task: str, limits: Limits | None, files: Sequence[Attachment] = ()
    ) -> tuple[SpendForecast | None, Answer | None]:
        """Return the forecast that has to be confirmed, if one has to be, and the answer of the caller's function."""
        forecast = await self.forecast(journal, team, task, limits, files) if self.is_about(team) else None
        return forecast, None if forecast is None else await self.answer(team, forecast)

    async def forecast(
        self, journal: Journal, team: Team, task: str, limits: Limits | None, files: Sequence[Attachment] = ()
    ) -> SpendForecast | None:
        """Return the forecast that has to be confirmed; `None` if the run may begin without."""
        from teamwright.wings import required_hook

        forecaster: Forecaster = required_hook("forecast", "Confirming what a run will cost")
        forecast = await forecaster(journal, team, task, limits, files)
        above = self._amount(team)
        if self.confirm is True or above is None or above.is_exceeded_by(forecast):
            return forecast
        return None

    async def answer(self, team: Team, forecast: SpendForecast) -> Answer | None:
        """Return the answer of the caller's function; `None` if a person is to answer."""
        if isinstance(self.confirm, bool | Spend):
            return None
        given = self.confirm(forecast)
        return _to_answer(confirmation_key(team.name), await given if isawaitable(given) else given)


def _to_answer(key: str, given: object) -> Answer:
    if isinstance(given, bool):
        given = YES if given else NO
    answer = Answer(text=given) if isinstance(given, str) else given
    if not isinstance(answer, Answer) or answer.text not in CONFIRM_CHOICES:
        raise UsageError(
            f"The function that confirms a run returned {given!r}; it must return True or False, 'yes' or 'no', or"
            '  Answer(text="smaller", data={"usd": 0.5}).'
        )
    return check_confirmation(key, answer)


def check_start(task: object, history: object, limits: Limits | None) -> Limits | None:
    """Return the limits of a run; raises `UsageError` for arguments that are of the wrong type or too large."""
    check_task(task)
    if not isinstance(history, Sequence) or not all(
        isinstance(one, Message) for one in cast("Sequence[object]", history)
    ):
        raise UsageError("The history must be a list of Message, for example  [Message(name='user', content='Hi')].")
    for one in cast("Sequence[Message]", history):
        if (wrong := misfit_of(one)) is not None:
            raise UsageError(f"A message of the history can't be used: {wrong}")
    return None if limits is None else value_of("The run", "limits", limits, Limits)


def check_first(asked: RunRequest, continues: str | None) -> None:
    """Raise `UsageError` if a run has a history besides the recorded one of the run that it continues."""
    if asked.history and continues is not None:
        where = "The run" if asked.conversation is None else f"The conversation {asked.conversation!r}"
        raise UsageError(f"{where} continues the run {continues!r}, which has its history; leave out `history`.")


def check_task(task: object) -> str:
    """Return the task; raises `UsageError` for a task that is no text, shows nothing or is too large."""
    if not isinstance(task, str):
        raise UsageError(f"The task must be a text, and is {task!r}.")
    if not task.strip() or (not task.isascii() and _is_blank(task)):
        raise UsageError(f"The task is blank, {task[:20]!r}: say in words what is to be done, also with files.")
    if len(task.encode("utf-8", "surrogatepass")) > LARGEST_TASK:
        raise UsageError(
            f"The task is larger than {LARGEST_TASK // 1024} KiB; put it into a file that a tool can read."
        )
    return task


def _is_blank(task: str) -> bool:
    from teamwright.values.text.display import is_blank

    return is_blank(task)


def new_seed() -> int:
    """Return a seed for the random numbers of one run."""
    import secrets

    return secrets.randbits(48)


def new_run_id(now: float) -> str:
    """Return a new run id, which sorts by time and is unique within a second."""
    import secrets

    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"


def process_name() -> str:
    """Return the name of this process as a driver: its host and its id."""
    import socket

    return f"{socket.gethostname()}:{os.getpid()}"


class PlacedInput(Struct, frozen=True):
    """What a child run begins with besides the texts of its turn."""

    turn: Turn
    depth: int
    artifacts: tuple[Body, ...] = ()
    values: Mapping[str, SharedValue] = {}
    recovery: Recovery | None = None
    """How the teams around the member recover from its failures."""
    owned: Owned = UNOWNED
    """What the steps around the member may write."""
    notes_team: str = ""
    """The team that the notes of agents belong to."""


class RunInput(Struct, frozen=True):
    """What a new run starts with."""

    task: str
    seed: int
    history: Sequence[Message] = ()
    origin: Origin | None = None
    limits: Limits | None = None
    conversation: str = ""
    named: bool = True
    """Whether the caller chose the run id, so that the inbox may already hold items for it."""
    attachments: Sequence[Attachment] = ()
    confirm: SpendForecast | None = None
    """The forecast that a person confirms before the run spends anything."""
    confirmation: Answer | None = None
    """The answer to it, where the caller has it already."""
    files: Mapping[str, bytes] = {}
    """The files that travel with the run, by their paths in the folder of its manifest."""
    code: str = ""
    """The digest of the folder with the run's Python code."""
    claim: BudgetClaim | None = None
    """What the run reserves of a tenant's budget with its first events."""
    placed: PlacedInput | None = None
    """The turn of another run that this run answers."""
    commit: str = ""
    """The commit that the team's branch begins at."""


async def read_files(team: Team, given: Sequence[AttachmentLike], *, continues: bool = False) -> Sequence[Attachment]:
    """Read the files of a team and of its task, and check that the team's models can take them.

    Files are read in a thread; contents in memory need none, which virtual time does not have.
    """
    own = () if continues else team.attachments
    wanted = own if given == () else (*own, *listed("The run", "attachments", given))
    if not wanted:
        return ()
    from teamwright.agents.attachments import Attachment, read_attachments
    from teamwright.teams.preflight import check_attachments

    if all(isinstance(one, Attachment) for one in wanted):
        files = read_attachments(wanted)
    else:
        files = await anyio.to_thread.run_sync(read_attachments, wanted)
    check_attachments(team, files)
    return files
