"""Asks and calls as page events: what experts are asked, call, think and reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from teamwright.history.recorded_asks import texts_of
from teamwright.server.page.page_events import (
    PageExpertJoined,
    PageExpertResult,
    PageExpertStep,
    PageFailure,
    PageTeamDissolved,
    PageTeamSynthesis,
    PageThinking,
    PageToolCall,
    PageToolResult,
    PageUsage,
    PageWarning,
    StepState,
)
from teamwright.server.page.page_state import AskAtWork, EventBuilder, page_artifacts, page_value
from teamwright.server.page.teams import close_plan
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentCallRejected,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.run_keys import is_request, split_attempt
from teamwright.values.text.display import cut
from teamwright.values.text.secrets import mask_text, mask_value

LONGEST_TASK = 500
"""Characters of a task that an event shows; the prompt of the turn has all of it."""

UNFINISHED: frozenset[StepState] = frozenset(("running", "waiting"))


@dataclass(frozen=True, slots=True)
class ToolCallAtWork:
    """A tool call that has not returned yet."""

    tool: str
    began: float


def project_asked(builder: EventBuilder, fact: AgentAsked) -> None:
    """Add what an expert is asked; a team is shown once it has formed, and a check by its verdict."""
    event = builder.event
    ask = builder.state.begin(event, fact)
    if ask.is_team or ask.is_check:
        return
    if ask.expert.id not in builder.state.announced:
        builder.state.announced.add(ask.expert.id)
        described = builder.state.appearance.description_of(ask.member)
        builder.add(PageExpertJoined(**builder.head(ask.expert), role=_role(ask), description=mask_text(described)))
    builder.add(
        PageExpertStep(
            **builder.head(ask.expert),
            purpose=fact.purpose,
            member_kind=fact.member_kind,
            turn=fact.turn,
            attempt=split_attempt(builder.key)[1],
            step=ask.step,
            task=cut(builder.text(fact.task), LONGEST_TASK),
            asker="" if ask.asker is None else ask.asker.expert.id,
        )
    )
    if ask.step and fact.purpose == "work" and not ask.team.records_steps:
        builder.set_step(ask.step, "running", members=(ask.member,))


def _role(ask: AskAtWork) -> Literal["member", "lead", "coordinator", "judge", "tool"]:
    if ask.purpose == "judge":
        return "judge"
    if ask.asker is not None:
        return "tool"
    if ask.member == ask.team.lead:
        return "lead"
    return "coordinator" if ask.purpose == "coordinate" else "member"


def project_replied(builder: EventBuilder, fact: AgentReplied) -> None:
    """Add the reply of an expert, or the answer of a team and its end."""
    ask = builder.state.end(builder.key)
    if ask is None or ask.is_check:
        return
    if ask.is_team:
        _end_team(builder, ask, fact)
        return
    artifacts = page_artifacts(fact.artifacts)
    result = _result(builder, ask, fact)
    builder.add(result.changed(truncated=fact.truncated, artifacts=artifacts, transfer_to=fact.transfer_to or ""))
    if ask.step and ask.purpose == "work" and not ask.team.records_steps:
        builder.set_step(ask.step, "completed", members=(ask.member,))


def project_failed(builder: EventBuilder, fact: AgentFailed) -> None:
    """Add the failure of an expert, or the end of a team that failed."""
    ask = builder.state.end(builder.key)
    if ask is None:
        return
    failure = PageFailure(error=fact.error, message=mask_text(fact.message))
    if ask.is_team:
        _end_team(builder, ask, fact, failure)
        return
    if ask.is_check:
        builder.add(PageWarning(**builder.head(), text=failure.message, code=fact.kind))
        return
    builder.add(_result(builder, ask, fact).changed(failure=failure))
    if ask.step and ask.purpose == "work" and not ask.team.records_steps:
        state = "cancelled" if fact.error == "cancelled" else "failed"
        builder.set_step(ask.step, state, members=(ask.member,), reason=fact.message)


def _result(builder: EventBuilder, ask: AskAtWork, fact: AgentReplied | AgentFailed) -> PageExpertResult:
    return PageExpertResult(
        **builder.head(ask.expert),
        text=builder.text(*(ref.body for ref in fact.messages)),
        purpose=ask.purpose,
        step=ask.step,
        data=builder.value(fact.data),
        usage=page_value(PageUsage, fact.usage),
        cost=fact.usage.usd,
        seconds=_seconds(builder, ask.began),
        warnings=tuple(map(mask_text, fact.warnings)),
    )


def _end_team(
    builder: EventBuilder, ask: AskAtWork, fact: AgentReplied | AgentFailed, failure: PageFailure | None = None
) -> None:
    builder.team = team = ask.team
    for step in [step for step, state in team.states.items() if state in UNFINISHED]:
        builder.set_step(step, "cancelled", reason="the team ended")
    close_plan(builder, failure)
    if fact.messages or fact.data is not None:
        builder.add(
            PageTeamSynthesis(
                **builder.head(),
                team=team.name,
                text=builder.text(*(ref.body for ref in fact.messages[-1:])),
                data=builder.value(fact.data),
                usage=page_value(PageUsage, fact.usage),
                warnings=tuple(map(mask_text, fact.warnings)),
                failed=failure is not None,
            )
        )
    reason = failure.error if failure is not None else team.ended.stop_reason if team.ended is not None else ""
    builder.add(
        PageTeamDissolved(
            **builder.head(),
            team=team.name,
            reason=reason,
            turns=0 if team.ended is None else team.ended.turns,
            seconds=_seconds(builder, ask.began),
            failure=failure,
        )
    )


def project_called(builder: EventBuilder, fact: AgentCalled, calls: dict[str, ToolCallAtWork]) -> None:
    """Add a tool call; requests to models are shown by what they return."""
    if fact.effect != "tool":
        return
    calls[builder.key] = ToolCallAtWork(fact.name, builder.event.time)
    ask = builder.state.ask_around(builder.event.scope)
    builder.add(
        PageToolCall(
            **builder.head(None if ask is None else ask.expert),
            turn="" if ask is None else ask.key,
            tool=fact.name,
            arguments=builder.value(fact.arguments),
            attempt=fact.attempt,
            in_doubt=fact.in_doubt,
            method=fact.method or "",
        )
    )


def project_returned(builder: EventBuilder, fact: AgentReturned, calls: dict[str, ToolCallAtWork]) -> None:
    """Add the result of a tool call, or what a model thought before it replied."""
    event, ask = builder.event, builder.state.ask_around(builder.event.scope)
    expert, turn = (None, "") if ask is None else (ask.expert, ask.key)
    call = calls.pop(builder.key, None)
    if call is not None:
        builder.add(
            PageToolResult(
                **builder.head(expert),
                turn=turn,
                tool=call.tool,
                result=builder.value(fact.body),
                seconds=_seconds(builder, call.began),
                artifacts=page_artifacts(fact.artifacts),
            )
        )
    elif builder.bodies is not None and is_request(event.place):
        texts = texts_of(event, builder.bodies)
        if thought := texts.get("thinking"):
            builder.add(PageThinking(**builder.head(expert), turn=turn, text=mask_text(str(thought))))
        if texts.get("calls") and (said := texts.get("response")):
            builder.add(PageThinking(**builder.head(expert), turn=turn, text=mask_text(str(said)), part="text"))


def project_call_failed(builder: EventBuilder, fact: AgentCallFailed, calls: dict[str, ToolCallAtWork]) -> bool:
    """Add the failure of a tool call; returns whether the call was one."""
    call = calls.get(builder.key)
    if call is None:
        return False
    if fact.retry_in is None:
        del calls[builder.key]
    ask = builder.state.ask_around(builder.event.scope)
    builder.add(
        PageToolResult(
            **builder.head(None if ask is None else ask.expert),
            turn="" if ask is None else ask.key,
            tool=call.tool,
            seconds=_seconds(builder, call.began),
            failure=PageFailure(error=fact.error, message=mask_text(fact.message)),
            retry_in=fact.retry_in,
        )
    )
    return True


def project_rejected(builder: EventBuilder, fact: AgentCallRejected) -> None:
    """Add a tool call that was not made, and why."""
    ask = builder.state.ask_around(builder.event.scope)
    expert, turn = (None, "") if ask is None else (ask.expert, ask.key)
    texts = {} if builder.bodies is None else texts_of(builder.event, builder.bodies)
    arguments = mask_value(texts.get("arguments"))
    builder.add(PageToolCall(**builder.head(expert), turn=turn, tool=fact.name, arguments=arguments))
    failure = PageFailure(error=fact.reason, message=mask_text(fact.message))
    builder.add(PageToolResult(**builder.head(expert), turn=turn, tool=fact.name, failure=failure))


def _seconds(builder: EventBuilder, began: float) -> float:
    return round(max(0.0, builder.event.time - began), 3)
