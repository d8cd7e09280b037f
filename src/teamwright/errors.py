"""Every exception that Teamwright raises, in one tree.

TeamwrightError
├── UsageError                    a mistake of the caller: names, arguments, manifests (exit code 2)
│   ├── ManifestError             one or more problems, each with a place
│   ├── PlanError                 steps that can't be executed, with every reason
│   ├── UnknownName               with the nearest names
│   ├── DuplicateName
│   ├── RunExists                 the id belongs to a run of another team or task
│   ├── InvalidName
│   ├── InvalidValue              invalid arguments of a value, with every reason
│   ├── InvalidArguments          a call with an unknown argument, or without one that it needs
│   └── MissingExtra              an optional dependency is not installed
├── JournalError                  the record can't be read or written
│   ├── JournalUnavailable        locked, full disk, no permission
│   ├── JournalCorrupt
│   ├── JournalTooNew             written by a newer version
│   ├── FencedOut                 another driver has taken over this run
│   ├── EventsLost                the database has lost events that it had confirmed
│   └── BudgetUnavailable         the budget of a tenant has no room for a run
├── RunError                      the operation is not possible for this run
│   ├── RunNotFound
│   ├── RunIsLive                 a process drives it
│   ├── NotResumable
│   ├── InterventionRefused       the run can't take what a person sent it
│   ├── ConversationBusy          the last turn of a conversation has not ended
│   ├── NonDeterminism            replay and record disagree
│   ├── DuplicateKey              a strategy used one key twice, or one ask below another
│   ├── MisplacedEffect           a strategy made an effect itself
│   ├── IllegalMove               a coordinator moved a step to a state that can't follow
│   ├── MissingDependency         a tool uses an object that the engine was not given
│   └── VirtualTimeStuck          a wait that virtual time can't end
├── LimitReached                  a reservation was refused
└── AgentError                    a member could not answer; becomes a Failure
    ├── RateLimited
    ├── ContextTooLong
    ├── AgentTimeout
    ├── ServiceError              connection errors and 5xx
    ├── Refused                   the model or provider declined
    │   └── InvalidRequest        the provider rejects the request: its key, model, account or parameters
    ├── InvalidInput              does not fit the agent's input schema
    ├── InvalidOutput             does not fit the agent's output schema
    ├── ToolError                 a tool failed; the model gets the message and can continue
    │   ├── CallInDoubt           the tool's server was lost during the call, which may have taken effect
    │   └── NotDone               it failed before it did anything
    ├── MemberFailed              a team failed because of a member
    ├── StaleWrite                a concurrent write changed the shared value
    ├── ArtifactNotFound          a pointer to no artifact of this run
    ├── NotOwned                  a scope requests keys that it can't own
    ├── ExpressionFailed          a condition or a template can't be parsed or evaluated
    ├── PatternTooSlow            a regular expression took too long
    └── ScriptMismatch            a scripted model has no matching rule
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class TeamwrightError(Exception):
    """The root of the tree; its text is a full sentence for the user."""


class UsageError(TeamwrightError):
    """The caller made a mistake, and nothing ran. `reasons` lists the mistakes if there are several."""

    reasons: tuple[str, ...] = ()

    @classmethod
    def several(cls, reasons: Iterable[str]) -> UsageError:
        """Return one error for several mistakes, one per line."""
        listed = tuple(reasons)
        error = UsageError("\n".join(listed))
        error.reasons = listed
        return error


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a manifest: its place, a message, and a suggestion."""

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    suggestion: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        hint = f" ({self.suggestion})" if self.suggestion else ""
        return f"{place}{self.message}{hint}"


class ManifestError(UsageError):
    """A manifest has mistakes; `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PlanError(UsageError):
    """A plan can't be executed; `problems` lists all reasons."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = self.reasons = tuple(problems)
        super().__init__("\n".join(self.problems))


class UnknownName(UsageError):
    """A name is unknown; the message lists the nearest ones."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what, self.name = what, name
        super().__init__(f"There is no {what} {name!r}; {nearest(name, known)}")


class DuplicateName(UsageError):
    """A name is used twice."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"There is already {a(what)} {name!r}; choose another name.")


class RunExists(UsageError):
    """The id belongs to a run of another team or task; nothing was started. `differences` says how they differ."""

    def __init__(self, run_id: str, differences: Iterable[str]) -> None:
        self.run_id, self.differences = run_id, tuple(differences)
        super().__init__(
            f"Run {run_id!r} exists already and differs from this one in {'; in '.join(self.differences)}."
            f" Choose another run id, or see it with  teamwright runs show {run_id}"
        )


class InvalidName(UsageError):
    """A name outside `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`."""

    def __init__(self, what: str, name: str, suggestion: str) -> None:
        self.suggestion = suggestion
        super().__init__(
            f"{name!r} can't name {a(what)}: use letters, digits, '.', '_' and '-', at most 64, starting with a letter"
            f" or digit; for example {suggestion!r}."
        )


class InvalidValue(UsageError, ValueError):
    """A value can't be constructed from its arguments; `reasons` lists all mistakes."""

    def __init__(self, kind: str, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(as_sentence(f"{kind}: {'; '.join(self.reasons)}"))


class InvalidArguments(UsageError, TypeError):
    """A constructor or function has no argument of this name, or needs one that is not given."""


class MissingExtra(UsageError):
    """A required optional dependency is not installed."""

    def __init__(self, extra: str, need: str) -> None:
        self.extra = extra
        from teamwright.install_command import install_command  # for mistakes alone

        super().__init__(f"{need} needs the extra {extra!r}: run  {install_command(extra)}")


class JournalError(TeamwrightError):
    """The journal can't be read or written."""


class JournalUnavailable(JournalError):
    """The journal can't be written now; recorded events are safe."""


class JournalCorrupt(JournalError):
    """The database file is damaged or is not a journal."""


class JournalTooNew(JournalError):
    """The database was written by a newer version of Teamwright."""


class FencedOut(JournalError):
    """Another process drives this run now. This one stops, and nothing recorded is lost."""


class EventsLost(JournalError):
    """The database has lost events of this run that it had confirmed, so the run stops: a record has no gap."""


class BudgetUnavailable(JournalError):
    """The budget of a tenant has no room for what a run may spend; nothing was recorded."""


class RunError(TeamwrightError):
    """The operation is not possible for this run."""


class RunNotFound(RunError, UsageError):
    """No run has this id."""

    def __init__(self, run_id: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"There is no run {run_id!r}; {nearest(run_id, known, 'see  teamwright runs list')}")


class RunIsLive(RunError):
    """A process drives the run, so no other may drive or change it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id!r} is being driven by a living process; follow it with"
            f"  teamwright runs show {run_id} --follow  or stop it with  teamwright runs cancel {run_id}"
        )


class NotResumable(RunError):
    """The run has ended, or something that it needs is missing."""


class InterventionRefused(RunError):
    """The run can't take what a person sent it; the text says why."""


class ConversationBusy(RunError):
    """The last turn of a conversation has not ended, so that no other can begin."""

    def __init__(self, name: str, run_id: str | None, status: str) -> None:
        self.run_id, self.status = run_id, status
        if run_id is None:
            text = "another turn of it is just starting; try again."
        elif status == "running":
            text = f"its turn {run_id} is running; wait for it with  teamwright runs show {run_id} --follow"
        else:
            text = (
                f"its last turn, run {run_id}, is {status}: finish it with  teamwright runs resume {run_id}"
                f"  or give it up with  teamwright runs cancel {run_id}"
            )
        super().__init__(f"The conversation {name!r} can't go on now: {text}")


class NonDeterminism(RunError):
    """On replay the program made a different call than the recorded one; the message shows both."""

    def __init__(self, run_id: str, recorded: str, replayed: str) -> None:
        self.recorded, self.replayed = recorded, replayed
        super().__init__(
            f"Run {run_id!r} can't be resumed as it was: the record says {recorded}, the program now {replayed}."
            f" A strategy or agent changed, or uses time, randomness or order outside its context."
            f" Use  teamwright runs fork {run_id}  to go on with the changed program."
        )


class DuplicateKey(RunError):
    """A strategy or agent used a key twice within a scope, or below one of its asks, which is a bug in its code."""

    def __init__(self, key: str, problem: str = "is used twice in one scope") -> None:
        super().__init__(f"The key {key!r} {problem}; name each ask, effect and scope by its place.")


class IllegalMove(RunError):
    """A coordinator moved a step to a state that can't follow its own, which is a bug in its code."""

    def __init__(self, state: str, to: str) -> None:
        super().__init__(f"A step can't move from {state!r} to {to!r}; the states of a step say what can follow.")


class MisplacedEffect(RunError):
    """A strategy made an effect itself, which is a bug in its code."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The effect {key!r} is made by a strategy; effects belong to agents, so ask a member instead."
        )


class MissingDependency(RunError):
    """A tool uses an object that the engine was not given; the run can be resumed with an engine that has it."""

    def __init__(self, kind: str, given: Sequence[str], *, ambiguous: bool = False) -> None:
        has = f"it has {', '.join(given)}" if given else "it has none"
        count = "more than one dependency" if ambiguous else "no dependency"
        super().__init__(f"The engine has {count} of the type {kind!r} ({has}); pass one with  Engine(deps=[…])")


class VirtualTimeStuck(RunError):
    """On a virtual clock, everything waits for something that only real time can bring."""


class LimitReached(TeamwrightError):
    """A call does not fit the budget, even without other calls in flight."""


class AgentError(TeamwrightError):
    """A member could not answer. `kind` names the error in scripts, records and policies.

    A call that fails at an `unknown_cost` stays charged in full: the provider may have worked on it. `arrived` are the
    input and output tokens of what the call had received of a reply that broke off.
    """

    kind = "error"
    retryable = False
    unknown_cost = False

    def __init__(self, message: str, *, retry_after: float | None = None, unknown_cost: bool = False) -> None:
        self.retry_after = retry_after
        if unknown_cost:
            self.unknown_cost = True
        self.mark: str | None = None
        self.arrived: tuple[int, int] | None = None
        super().__init__(message)


class RateLimited(AgentError):
    """The provider rejected a call because of its rate limit."""

    kind, retryable = "rate_limit", True


class ContextTooLong(AgentError):
    """The prompt does not fit the model."""

    kind = "context_length"


class AgentTimeout(AgentError):
    """The member exceeded its time limit."""

    kind, retryable, unknown_cost = "timeout", True, True


class ServiceError(AgentError):
    """The provider can't be reached or failed on its side."""

    kind, retryable = "server", True


class Refused(AgentError):
    """The model, its provider or a guardrail declined."""

    kind = "refused"


class InvalidRequest(Refused):
    """The provider rejects the request: its key, model, account or parameters. The same request can't succeed."""

    kind = "invalid_request"


class InvalidInput(AgentError):
    """The input of the agent does not fit its input schema."""

    kind = "invalid_input"


class InvalidOutput(AgentError):
    """The reply of the agent does not fit its output schema."""

    kind, unknown_cost = "invalid_output", True


class ToolError(AgentError):
    """A tool failed, does not exist or was called with invalid arguments."""

    kind = "tool"


class CallInDoubt(ToolError):
    """The other side was lost before it answered. The call is made again once, recorded as a call in doubt."""

    kind, unknown_cost = "in_doubt", True


class NotDone(ToolError):
    """Raised by a tool that failed before it did anything: the same action may be made later, even with `once`."""

    kind = "not_done"


class MemberFailed(AgentError):
    """A team failed because of a member. It carries the member's kind of error and the messages so far.

    `member` is the path of the member that failed, from this team; empty if no single member did.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        messages: tuple[object, ...] | None = None,
        data: object = None,
        member: str = "",
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.member, self.warnings = kind, member, warnings
        self.messages, self.data = messages, data
        super().__init__(message)


class ExpressionFailed(AgentError):
    """A condition or a template can't be parsed, or can't be evaluated with these values."""

    kind = "expression"


class PatternTooSlow(AgentError):
    """The search for a regular expression exceeded its time limit."""

    kind = "pattern"

    def __init__(self, pattern: str) -> None:
        shown = pattern if len(pattern) <= 80 else pattern[:79] + "…"
        super().__init__(
            f"The search for the regular expression {shown!r} takes too long; write it without repetitions within"
            " repetitions."
        )


class StaleWrite(AgentError):
    """A write to the workspace was based on an outdated version; nothing was written."""

    kind = "conflict"

    def __init__(self, name: str, based_on: int, version: int, by: str) -> None:
        self.name, self.based_on, self.version, self.by = name, based_on, version, by
        stands = f"is at version {version}, written by {by!r}" if version else "does not exist"
        super().__init__(f"{name!r} {stands}, and the write was based on version {based_on}; read it again and retry")


class ArtifactNotFound(AgentError):
    """A pointer names no artifact of this run or of the run it was forked from."""

    kind = "not_found"

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        scheme, separator, _ = pointer.partition("://")
        shown = pointer if len(pointer) <= 100 else f"{pointer[:99]}…"
        if separator and scheme != "artifact":
            message = (
                f"{shown!r} can't be opened: only pointers 'artifact://HASH' and hashes of artifacts that this run has"
                " kept can be"
            )
        else:
            message = f"Nothing is kept under {shown!r} in this run; take the hash that keep_artifact gave"
        super().__init__(message)


class NotOwned(AgentError):
    """A scope requests keys that the scopes around it don't own, or requests keys where none can be owned."""

    kind = "not_owned"


class ScriptMismatch(AgentError):
    """No rule of a scripted model matches its input."""

    kind = "script"


MOST_COMPARED = 200
"""The number of characters of an unknown name that are compared with known names."""
MOST_LISTED = 24
"""The number of known names that an error lists: more than there are strategies."""
SIMILAR, MISSPELT = 0.7, 0.6
"""The least similarity of a name to suggest it, and that of one with the same first letter."""


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a sentence that suggests the nearest known names, or lists all if there are few."""
    import difflib  # for mistakes alone

    names, name = sorted(set(known)), name[:MOST_COMPARED]
    for spelt in (name, name.lower()):
        alike = difflib.get_close_matches(spelt, names, n=3, cutoff=SIMILAR)
        near = difflib.get_close_matches(spelt, names, n=3, cutoff=MISSPELT)
        close = alike or [one for one in near if one[:1] == spelt[:1]]
        if close:
            break
    if close:
        return "did you mean " + " or ".join(repr(one) for one in close) + "?"
    if otherwise or not names:
        return f"{otherwise or 'none is known'}."
    return "known are " + ", ".join(names[:MOST_LISTED]) + (" …" if len(names) > MOST_LISTED else ".")


def as_sentence(text: str) -> str:
    """Return a text that ends in one mark: a suggestion may be a question already."""
    return text if text.endswith((".", "?", "…")) else f"{text}."


def a(what: str) -> str:
    """Return a word with its indefinite article."""
    return f"an {what}" if what[:1] in "aeiou" else f"a {what}"
