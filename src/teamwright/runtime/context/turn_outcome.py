"""What a member's turn leaves in the record: facts that it emits, and its outcome, a reply or a failure.

Facts are recorded once, redacted. Replies are redacted, under the member's name and within its size cap before anything
else reads them. `child` is the scope of the turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from pydantic_core import from_json, to_json

from teamwright.agents.agent import Agent, is_package_class
from teamwright.agents.prompt_notices import extract_note, parse_note
from teamwright.errors import AgentError, LimitReached, MemberFailed, UsageError, nearest
from teamwright.runtime.context.size_caps import reply_within_cap
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import AgentCallRejected, AgentCompacted, AgentFailed, AgentReplied, ToolUseRef
from teamwright.values.events.event import ENGINE_FACTS, Fact
from teamwright.values.events.run import Custom
from teamwright.values.events.team import TeamEnded
from teamwright.values.run_keys import join_key
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Ending, ending_of
from teamwright.values.turns.turn import MOST_TOOL_USES, Failure, Reply, ToolUse, Turn, is_heard
from teamwright.values.value import JsonValue, Record, misfit_of, plain_json


def checked_reply(reply: Reply, member: Agent) -> Reply:
    """Return the reply of a member if it can be recorded, or raise `AgentError`; the data of a user's agent as JSON."""
    if reply.__class__ is not Reply:
        raise AgentError(f"{member.name!r} must answer with a Reply of messages, and gave {reply!r:.200}")
    if (wrong := reply.misfit()) is not None:
        raise AgentError(f"{member.name!r} must answer with a Reply of messages; {wrong}")
    if reply.data is None or is_package_class(type(member)):
        return reply
    try:
        return reply.changed(data=plain_json(reply.data))
    except ValueError as error:
        raise AgentError(f"{member.name!r} gave data that is not JSON: {error}") from error


def clean_reply(reply: Reply, member: Agent, turn: Turn, child: Scope) -> Reply:
    """Return the reply with the usage of its turn, redacted, and under the name of the member that was asked."""
    if reply.transfer_to is not None:
        _check_transfer(reply.transfer_to, turn, member.name)
    if reply.requests and not all(is_heard(one.type, turn.talk) for one in reply.requests):
        raise AgentError(f"{member.name!r} wants something of others in a turn in which no one hears it")
    changes: dict[str, object] = {}
    if reply.usage is not child.usage:
        changes["usage"] = child.usage
    redactor = child.run.redactor
    known = child.run.recorder.has_stored(reply.messages)
    if child.in_agent and (not known or reply.data is not None):
        reply = reply_within_cap(reply, member.name, child.policy.reply_bytes)
    if reply.data is not None:
        changes["data"] = redactor.value(reply.data, child.run.recorder.stored_texts)
    if reply.warnings:
        changes["warnings"] = tuple(map(redactor.text, reply.warnings))
    if reply.envelope_note is not None:
        changes["envelope_note"] = parse_note(
            cast("Mapping[str, object]", redactor.value(reply.envelope_note.to_json()))
        )
    if reply.tool_uses:
        kept, clean = reply.tool_uses[-MOST_TOOL_USES:], child.run.recorder.stored_texts
        changes["tool_uses"] = tuple(_clean_use(one, redactor, clean) for one in kept)
    if not known:  # texts from effects are stored already, and redacted
        changes["messages"] = tuple(one.changed(content=redactor.text(one.content)) for one in reply.messages)
    reply = reply.changed(**changes) if changes else reply
    if turn.envelope_limits is not None:
        reply = extract_note(reply, turn)
    return _signed(reply, member.name, child)


def _clean_use(use: ToolUse, redactor: Redactor, clean: Container[str]) -> ToolUse:
    arguments, result = (redactor.value(text, clean) for text in (use.arguments, use.result))
    return use.changed(arguments=arguments, result=result).bounded


def _stored_use(recorder: Recorder, use: ToolUse) -> ToolUseRef:
    return ToolUseRef(
        tool=use.tool, arguments=recorder.store(use.arguments), result=recorder.store(use.result), failed=use.failed
    )


def _check_transfer(to: str, turn: Turn, name: str) -> None:
    """Raise `AgentError` if a member hands its turn to one that it was not offered."""
    offered = [one.name for one in turn.handoffs]
    if to not in offered:
        hint = nearest(to, offered) if offered else "declare them with  handoffs"
        raise AgentError(f"{name!r} handed off to {to!r}, which is none of its handoffs; {hint}")


def _signed(reply: Reply, name: str, child: Scope) -> Reply:
    """Return the reply under the member's name, whatever it claims; the run's own team keeps its members' names."""
    if not child.in_agent and child.is_outermost:
        return reply
    for one in reply.messages:
        if one.name != name or one.role != "assistant":
            return reply.changed(messages=_signed_by(name, reply.messages))
    return reply


def failure_from(error: BaseException | None, member: Agent, child: Scope) -> Failure:
    """Return the failure that an error becomes; `None` means that a recorded decision stopped the turn."""
    run, name = child.run, member.name
    partial = error.messages if isinstance(error, MemberFailed) else None
    said = _as_said_by_member(child.messages if partial is None else cast("tuple[Message, ...]", partial), name, child)
    match error:
        case None:
            kind, message = "cancelled", "stopped by others"
        case LimitReached():
            kind, message = "budget", str(error)
        case AgentError():
            kind, message = error.kind, str(error)
        case _:
            kind, message = "crash", error_text(error)
    message = cut(run.redactor.text(message), LONGEST_ERROR)
    data = cast("JsonValue", error.data) if isinstance(error, MemberFailed) else None
    data = None if data is None else run.redactor.value(data, run.recorder.stored_texts)
    if isinstance(error, MemberFailed) and error.member:
        name = join_key(name, error.member)
    warnings = tuple(map(run.redactor.text, error.warnings)) if isinstance(error, MemberFailed) else ()
    return Failure(member=name, error=kind, message=message, messages=said, data=data, warnings=warnings)


def undelivered(failure: Failure) -> Failure:
    """Return the failure of a turn in which the member wanted something of others: no one learns of it."""
    return failure.changed(message=cut(f"{failure.message} (what it said to others was not delivered)", LONGEST_ERROR))


def _as_said_by_member(messages: Sequence[Message], name: str, child: Scope) -> tuple[Message, ...]:
    """Return a nested team's messages under the team's name; the run's own team keeps its members' names."""
    if child.in_agent or child.is_outermost:
        return tuple(messages)
    return _signed_by(name, messages)


def ending_fact(ending: Reply | Failure, member: Agent, child: Scope) -> AgentReplied | AgentFailed:
    """Return the fact that records the ending of a turn."""
    recorder = child.run.recorder
    if not isinstance(ending, Reply):
        return AgentFailed(
            member=member.name,
            error=ending.error,
            message=ending.message,
            usage=child.usage,
            messages=recorder.store_messages(ending.messages),
            data=None if ending.data is None else recorder.store(ending.data),
            tally=child.tally(),
            path="" if ending.member == member.name else ending.member,
            warnings=ending.warnings,
        )
    return AgentReplied(
        messages=recorder.store_messages(ending.messages),
        data=None if ending.data is None else recorder.store(ending.data),
        usage=ending.usage,
        signal=ending.signal,
        stop_reason=ending.stop_reason,
        truncated=ending.truncated,
        warnings=ending.warnings,
        artifacts=ending.artifacts,
        tally=child.tally(),
        envelope_note=ending.envelope_note,
        transfer_to=ending.transfer_to,
        tool_uses=tuple(map(partial(_stored_use, recorder), ending.tool_uses)) if ending.tool_uses else (),
    )


def _signed_by(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(message.changed(name=name, role="assistant") for message in messages)


def check_scripts(ending: Ending, team: str, agents: Iterable[Agent], marks: Counter[tuple[str, str]]) -> Ending:
    """Fail a run that would succeed if a strict script has unused rules; `marks` counts the rules used by members."""
    if ending.failure is not None:
        return ending
    from teamwright.agents.scripted import unused_rules

    left = unused_rules(agents, lambda name, mark: marks[name, mark])
    if not left:
        return ending
    text = f"the script is strict, and {'; '.join(left)}"
    failure = Failure(member=team, error="script", message=text, messages=ending.messages)
    return ending_of(failure, ending.usage)


def emit_fact(scope: Scope, fact: Fact, key: str | None = None) -> None:
    """Record a fact of a scope unless the record holds it already; raises `UsageError` for the engine's own kinds.

    Facts without a key are counted.
    """
    if not isinstance(fact, Record):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        raise UsageError(f"Only events can be emitted, not {fact!r:.200}; emit a Custom.")
    if fact.__class__ in ENGINE_FACTS:
        raise UsageError(f"Only the engine records {fact.kind!r}; for something of your own, emit a Custom.")
    if scope.is_closed:
        return
    run = scope.run
    if fact.__class__ is TeamEnded:
        scope.has_ended = True
    if key is None:
        scope.emitted_count += 1
        place = f"event-{scope.emitted_count}"
    else:
        place = scope.claim(key)
    if (fact.kind, scope.path, place) not in run.record.emitted:
        if isinstance(fact, Custom):
            fact = fact.changed(data=_json(run.redactor.value(fact.data)))
            if (wrong := misfit_of(fact)) is not None:
                raise UsageError(f"An event of your own can't be recorded: {wrong}")
        else:
            fact = run.redactor.fact(fact)
        if isinstance(fact, AgentCallRejected):  # emitted with the text that becomes its body
            fact = fact.changed(arguments=run.recorder.store(fact.arguments))
        elif isinstance(fact, AgentCompacted):
            fact = fact.changed(summary=run.recorder.store(fact.summary))
        run.recorder.add(scope.path, place, fact)


def end_team(scope: Scope, fact: TeamEnded) -> None:
    """Record the ending of a team that is stopped from outside, unless it has begun nothing or has ended."""
    if not scope.emitted_count or scope.has_ended or scope.run.closing:
        return
    place = f"event-{scope.emitted_count + 1}"
    if (fact.kind, scope.path, place) not in scope.run.record.emitted:
        scope.run.recorder.add(scope.path, place, fact)


def _json(data: JsonValue) -> JsonValue:
    """Return the data as it will be read back from the journal."""
    try:
        return from_json(to_json(data, inf_nan_mode="null"))
    except ValueError as error:
        raise UsageError(f"The data of an event must be JSON: {error}") from error
