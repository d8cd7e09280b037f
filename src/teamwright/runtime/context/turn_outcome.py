"""The outcome of a member's turn: a redacted reply under the member's name, or a failure; and the fact that records it.

`child` is the scope of the turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from teamwright.agents.contract.agent import Agent, is_package_class
from teamwright.agents.prompt_notes import extract_note, parse_note
from teamwright.errors import AgentError, LimitReached, MemberFailed, nearest
from teamwright.runtime.context.size_cap import reply_within_cap
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.key import join_key
from teamwright.values.models import JsonValue, plain_json
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply, Turn


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
    if not known:  # texts from effects are stored already, and redacted
        changes["messages"] = tuple(one.changed(content=redactor.text(one.content)) for one in reply.messages)
    reply = reply.changed(**changes) if changes else reply
    if turn.envelope_limits is not None:
        reply = extract_note(reply, turn)
    return _signed(reply, member.name, child)


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
    )


def _signed_by(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(message.changed(name=name, role="assistant") for message in messages)
