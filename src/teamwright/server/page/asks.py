"""Asks and calls as page events: what experts are asked, call, think and reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from teamwright.history.event_texts import texts_of
from teamwright.server.page.builder import PageDraft, page_artifacts, page_usage
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
    StepState,
)
from teamwright.server.page.state import AskAtWork
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
from teamwright.values.key import is_request, split_attempt
from teamwright.values.secrets.patterns import mask_text, mask_value
from teamwright.values.text.display import cut

LONGEST_TASK = 500
"""Characters of a task that an event shows; the prompt of the turn has all of it."""

UNFINISHED: frozenset[StepState] = frozenset(("running", "waiting"))


@dataclass(frozen=True, slots=True)
class ToolCallAtWork:
    """A tool call that has not returned yet."""

    tool: str
    began: float


def project_asked(draft: PageDraft, fact: AgentAsked) -> None:
    """Add what an expert is asked; a team is shown once it has formed."""
    event = draft.event
    ask = draft.stage.begin(event, fact)
    if ask.is_team:
        return
    if ask.expert.id not in draft.stage.announced:
        draft.stage.announced.add(ask.expert.id)
        described = draft.stage.looks.description_of(ask.member)
        draft.add(PageExpertJoined(**draft.head(ask.expert), role=_role(ask), description=mask_text(described)))
    draft.add(
        PageExpertStep(
            **draft.head(ask.expert),
            purpose=fact.purpose,
            member_kind=fact.member_kind,
            turn=fact.turn,
            attempt=split_attempt(draft.key)[1],
            step=ask.step,
            task=cut(draft.text(fact.task), LONGEST_TASK),
            asker="" if ask.asker is None else ask.asker.expert.id,
        )
    )
    if ask.step and fact.purpose == "work" and not ask.team.records_steps:
        draft.set_step(ask.step, "running", members=(ask.member,))


def _role(ask: AskAtWork) -> Literal["member", "lead", "coordinator", "judge", "tool"]:
    if ask.purpose == "judge":
        return "judge"
    if ask.asker is not None:
        return "tool"
    if ask.member == ask.team.lead:
        return "lead"
    return "coordinator" if ask.purpose == "coordinate" else "member"


def project_replied(draft: PageDraft, fact: AgentReplied) -> None:
    """Add the reply of an expert, or the answer of a team and its end."""
    ask = draft.stage.end(draft.key)
    if ask is None:
        return
    if ask.is_team:
        _end_team(draft, ask, fact)
        return
    draft.add(
        PageExpertResult(
            **draft.head(ask.expert),
            text=draft.text(*(ref.body for ref in fact.messages)),
            purpose=ask.purpose,
            step=ask.step,
            data=draft.value(fact.data),
            usage=page_usage(fact.usage),
            cost=fact.usage.usd,
            seconds=_seconds(draft, ask.began),
            truncated=fact.truncated,
            warnings=tuple(map(mask_text, fact.warnings)),
            artifacts=page_artifacts(fact.artifacts),
            transfer_to=fact.transfer_to or "",
        )
    )
    if ask.step and ask.purpose == "work" and not ask.team.records_steps:
        draft.set_step(ask.step, "completed", members=(ask.member,))


def project_failed(draft: PageDraft, fact: AgentFailed) -> None:
    """Add the failure of an expert, or the end of a team that failed."""
    ask = draft.stage.end(draft.key)
    if ask is None:
        return
    failure = PageFailure(error=fact.error, message=mask_text(fact.message))
    if ask.is_team:
        _end_team(draft, ask, fact, failure)
        return
    draft.add(
        PageExpertResult(
            **draft.head(ask.expert),
            text=draft.text(*(ref.body for ref in fact.messages)),
            purpose=ask.purpose,
            step=ask.step,
            data=draft.value(fact.data),
            usage=page_usage(fact.usage),
            cost=fact.usage.usd,
            seconds=_seconds(draft, ask.began),
            failure=failure,
            warnings=tuple(map(mask_text, fact.warnings)),
        )
    )
    if ask.step and ask.purpose == "work" and not ask.team.records_steps:
        state = "cancelled" if fact.error == "cancelled" else "failed"
        draft.set_step(ask.step, state, members=(ask.member,), reason=fact.message)


def _end_team(
    draft: PageDraft, ask: AskAtWork, fact: AgentReplied | AgentFailed, failure: PageFailure | None = None
) -> None:
    draft.team = team = ask.team
    for step in [step for step, state in team.states.items() if state in UNFINISHED]:
        draft.set_step(step, "cancelled", reason="the team ended")
    close_plan(draft, failure)
    if fact.messages or fact.data is not None:
        draft.add(
            PageTeamSynthesis(
                **draft.head(),
                team=team.name,
                text=draft.text(*(ref.body for ref in fact.messages[-1:])),
                data=draft.value(fact.data),
                usage=page_usage(fact.usage),
                warnings=tuple(map(mask_text, fact.warnings)),
            )
        )
    reason = failure.error if failure is not None else team.ended.stop_reason if team.ended is not None else ""
    draft.add(
        PageTeamDissolved(
            **draft.head(),
            team=team.name,
            reason=reason,
            turns=0 if team.ended is None else team.ended.turns,
            seconds=_seconds(draft, ask.began),
            failure=failure,
        )
    )


def project_called(draft: PageDraft, fact: AgentCalled, calls: dict[str, ToolCallAtWork]) -> None:
    """Add a tool call; requests to models are shown by what they return."""
    if fact.effect != "tool":
        return
    calls[draft.key] = ToolCallAtWork(fact.name, draft.event.time)
    ask = draft.stage.ask_around(draft.event.scope)
    draft.add(
        PageToolCall(
            **draft.head(None if ask is None else ask.expert),
            turn="" if ask is None else ask.key,
            tool=fact.name,
            arguments=draft.value(fact.arguments),
            attempt=fact.attempt,
            in_doubt=fact.in_doubt,
            method=fact.method or "",
        )
    )


def project_returned(draft: PageDraft, fact: AgentReturned, calls: dict[str, ToolCallAtWork]) -> None:
    """Add the result of a tool call, or what a model thought before it replied."""
    event, ask = draft.event, draft.stage.ask_around(draft.event.scope)
    expert, turn = (None, "") if ask is None else (ask.expert, ask.key)
    call = calls.pop(draft.key, None)
    if call is not None:
        draft.add(
            PageToolResult(
                **draft.head(expert),
                turn=turn,
                tool=call.tool,
                result=draft.value(fact.body),
                seconds=_seconds(draft, call.began),
                artifacts=page_artifacts(fact.artifacts),
            )
        )
    elif draft.bodies is not None and is_request(event.place):
        texts = texts_of(event, draft.bodies)
        if thought := texts.get("thinking"):
            draft.add(PageThinking(**draft.head(expert), turn=turn, text=mask_text(str(thought))))
        if texts.get("calls") and (said := texts.get("response")):
            draft.add(PageThinking(**draft.head(expert), turn=turn, text=mask_text(str(said)), part="text"))


def project_call_failed(draft: PageDraft, fact: AgentCallFailed, calls: dict[str, ToolCallAtWork]) -> bool:
    """Add the failure of a tool call; returns whether the call was one."""
    call = calls.get(draft.key)
    if call is None:
        return False
    if fact.retry_in is None:
        del calls[draft.key]
    ask = draft.stage.ask_around(draft.event.scope)
    draft.add(
        PageToolResult(
            **draft.head(None if ask is None else ask.expert),
            turn="" if ask is None else ask.key,
            tool=call.tool,
            seconds=_seconds(draft, call.began),
            failure=PageFailure(error=fact.error, message=mask_text(fact.message)),
            retry_in=fact.retry_in,
        )
    )
    return True


def project_rejected(draft: PageDraft, fact: AgentCallRejected) -> None:
    """Add a tool call that was not made, and why."""
    ask = draft.stage.ask_around(draft.event.scope)
    expert, turn = (None, "") if ask is None else (ask.expert, ask.key)
    texts = {} if draft.bodies is None else texts_of(draft.event, draft.bodies)
    arguments = mask_value(texts.get("arguments"))
    draft.add(PageToolCall(**draft.head(expert), turn=turn, tool=fact.name, arguments=arguments))
    failure = PageFailure(error=fact.reason, message=mask_text(fact.message))
    draft.add(PageToolResult(**draft.head(expert), turn=turn, tool=fact.name, failure=failure))


def _seconds(draft: PageDraft, began: float) -> float:
    return round(max(0.0, draft.event.time - began), 3)
