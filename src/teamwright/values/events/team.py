"""Facts about the work of a team: speakers, decisions, plans and their steps, messages and evaluations."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.turns.messages import RiskLevel
from teamwright.values.turns.results import StopReason
from teamwright.values.turns.turn import EvaluationVerdict, VerdictOutcome
from teamwright.values.value import JsonValue, Record

FailureRung = Literal["retry", "upgrade_model", "downgrade_model", "replan", "skip_step", "finish", "abort_team"]
"""What happens after a failed attempt at a step, from the cheapest to the last resort."""


class TeamStarted(Record, frozen=True):
    """A team began to work."""

    kind: ClassVar = "team.started"
    strategy: str
    strategy_version: int
    members: tuple[str, ...]
    share: str = "transcript"


class TeamReopened(Record, frozen=True):
    """A nested team ended here in the source run of this fork. Its members may differ now, so it runs again."""

    kind: ClassVar = "team.reopened"


class TeamEnded(Record, frozen=True):
    """The ending of a team; `status` is set by strategies that derive it from the states of their steps."""

    kind: ClassVar = "team.ended"
    stop_reason: StopReason
    turns: int = 0
    status: Literal["", "completed", "degraded", "failed", "timeout"] = ""


class TeamSelected(Record, frozen=True):
    """The next speaker: `by` which selector, `how` its answer was read, and the reason of a fallback."""

    kind: ClassVar = "team.selected"
    member: str
    turn: int
    how: Literal["structured", "exact", "case", "mention", "only", "fallback"]
    by: str = ""
    reason: str = ""


class TeamRouted(Record, frozen=True):
    """The edge that was taken from one member to the next, with its condition; `to` is None where no edge was open."""

    kind: ClassVar = "team.routed"
    source: str
    to: str | None = None
    when: str | None = None


class TeamHandoff(Record, frozen=True):
    """A member handed its turn to another, which is the next speaker. An empty `to` is a person, who is needed."""

    kind: ClassVar = "team.handoff"
    source: str
    to: str
    reason: str = ""


class TeamDecided(Record, frozen=True):
    """A decision of an orchestrator; `to` are the members that it delegated to, in order."""

    kind: ClassVar = "team.decided"
    by: str
    action: Literal["delegate", "synthesize", "clarify"]
    iteration: int
    to: tuple[str, ...] = ()


class TeamReplyRejected(Record, frozen=True):
    """A member's reply was unusable, so it was asked once more with the reason."""

    kind: ClassVar = "team.reply_rejected"
    member: str
    problem: str


class TeamEscalated(Record, frozen=True):
    """A member's reply is of high or critical risk, so `to` has to approve it; an empty `to` is a person.

    `reason` says why a person decides although the team has a lead.
    """

    kind: ClassVar = "team.escalated"
    member: str
    task_id: str
    risk_level: RiskLevel
    to: str = ""
    reason: str = ""


class TeamPlanned(Record, frozen=True):
    """How a team executes its plan, and why in this topology where that was chosen automatically."""

    kind: ClassVar = "team.planned"
    topology: str
    steps: int
    rounds: int
    width: int
    lead: str = ""
    workers: tuple[str, ...] = ()
    tokens: int = 0
    reason: str = ""


class TeamRoleBound(Record, frozen=True):
    """A role of a plan was bound to a member with its `capability`; `considered` are all members, in order."""

    kind: ClassVar = "team.role_bound"
    role: str
    member: str
    capability: str = ""
    considered: tuple[str, ...] = ()


class TeamStepAssigned(Record, frozen=True):
    """A step of a plan was assigned to a member, which starts on it; `members` are those of a step of several."""

    kind: ClassVar = "team.step_assigned"
    step: str
    member: str
    role: str = ""
    attempt: int = 1
    members: tuple[str, ...] = ()


class TeamStepFailed(Record, frozen=True):
    """A member failed in its `attempt`th attempt at a step, and `rung` is what happens now.

    `passed_over` are the rungs of the failure ladder before it that did not apply. `work` is the key of the ask that
    failed, within the scope.
    """

    kind: ClassVar = "team.step_failed"
    step: str
    member: str
    attempt: int
    error: str
    rung: FailureRung
    passed_over: tuple[FailureRung, ...] = ()
    work: str = ""


class TeamStepCompleted(Record, frozen=True):
    """A step of a plan ended in a final state, after `attempts` asks of its members.

    `verdict` is the last one on its work, if any. `nothing_found` says that it has the answer that there is nothing.
    """

    kind: ClassVar = "team.step_completed"
    step: str
    member: str
    state: Literal["completed", "degraded", "failed", "timeout", "cancelled"]
    attempts: int = 1
    verdict: VerdictOutcome | None = None
    score: float | None = None
    nothing_found: bool = False


class TeamMessageSent(Record, frozen=True):
    """A member sent `count` messages to each of the members `to` in a round of a plan."""

    kind: ClassVar = "team.message_sent"
    by: str
    to: tuple[str, ...]
    round: int
    count: int = 1


class TeamChannelOpened(Record, frozen=True):
    """A channel between two workers opened, since the work of one blocks a step of the other."""

    kind: ClassVar = "team.channel_opened"
    step: str
    between: tuple[str, ...]
    reason: str


class TeamChannelClosed(Record, frozen=True):
    """A channel between two workers closed, at its limit or because one of them settled the matter."""

    kind: ClassVar = "team.channel_closed"
    step: str
    between: tuple[str, ...]
    messages: int
    settled: bool


class TeamEmitted(Record, frozen=True):
    """An event within a reactive team: its id, the event that caused it, and the members that react."""

    kind: ClassVar = "team.emitted"
    event: str
    type: str
    depth: int
    by: str = ""
    cause: str = ""
    to: tuple[str, ...] = ()


class TeamBounded(Record, frozen=True):
    """A limit of a reactive team was reached: this event, and those like it from now on, are dropped.

    `chain` holds the types of the events that led to it, the nearest last.
    """

    kind: ClassVar = "team.bounded"
    limit: Literal["max_events", "max_depth"]
    most: int
    type: str
    by: str
    chain: tuple[str, ...] = ()

    @property
    def chain_text(self) -> str:
        """The chain as text; a chain that returns to its first type is a loop."""
        loop = len(self.chain) > 1 and self.chain[0] == self.chain[-1]
        return f"in the {'loop' if loop else 'chain'} {' → '.join(self.chain)}"


class TeamGoalReached(Record, frozen=True):
    """A reply reached the goal of a reactive team; waiting events were dropped, and working members stopped."""

    kind: ClassVar = "team.goal_reached"
    by: str
    waiting: int = 0
    at_work: int = 0


class TeamEvaluationStarted(Record, frozen=True):
    """The work of a member, in its `attempt`th round, goes to an evaluator; `rubric` is the digest of the criteria.

    `work` is the key of the ask whose reply is evaluated, within the scope.
    """

    kind: ClassVar = "team.evaluation_started"
    member: str
    evaluator: str
    attempt: int
    work: str
    criteria: tuple[str, ...]
    rubric: str


class TeamEvaluationResult(Record, frozen=True):
    """The verdict on the work of a member, with a result for every criterion of the rubric.

    `work` is the key of the evaluated ask, and `revises` that of the one before it, if this is not the first round.
    """

    kind: ClassVar = "team.evaluation_result"
    member: str
    attempt: int
    work: str
    verdict: EvaluationVerdict
    revises: str = ""


class TeamPlanChanged(Record, frozen=True):
    """A new version of a team's plan, made by a member or, with an empty `by`, by a person; the first is the plan.

    `difference` says what changed, a line each, and `to` are the members that it is announced to.
    """

    kind: ClassVar = "team.plan_changed"
    plan_version: int
    plan: JsonValue
    lead: str = ""
    by: str = ""
    difference: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    reason: str = ""


class TeamPlanStatus(Record, frozen=True):
    """How far a team's plan is now."""

    kind: ClassVar = "team.plan_status"
    status: Literal["draft", "confirmed", "executing", "completed", "failed", "fallback"]
    plan_version: int
    reason: str = ""


class TeamPlanProposed(Record, frozen=True):
    """A member's proposal to change the plan, and what `to` decided; an empty `to` is a person.

    `difference` is empty, and `reason` says why, where the proposal can't be used.
    """

    kind: ClassVar = "team.plan_proposed"
    by: str
    to: str = ""
    approved: bool = False
    difference: tuple[str, ...] = ()
    reason: str = ""


class TeamMerged(Record, frozen=True):
    """The answers of a competition became one: `winner` counts, or `by` merged them where there is none.

    `entries` are the members that gave the answers, and `votes` the answers that members voted for, an empty one by
    abstaining. `tied` are the answers between which `by` decided.
    """

    kind: ClassVar = "team.merged"
    step: str
    merge: Literal["best", "vote", "fusion"]
    entries: dict[str, str]
    winner: str = ""
    by: str = ""
    votes: dict[str, str] = {}
    tied: tuple[str, ...] = ()
    reason: str = ""


class StepSkipped(Record, frozen=True):
    """A step is skipped: its condition is false, all steps it needs were skipped, one of them failed, or a person
    stopped it.

    `because` are the needed steps that caused it.
    """

    kind: ClassVar = "step.skipped"
    step: str
    reason: Literal["condition", "needs", "failure", "stopped"]
    because: tuple[str, ...] = ()


class StepHeldUp(Record, frozen=True):
    """A step waits for keys that other steps own or will own before it; `by` are the first of those.

    Without `step`, the scope of this event waits, and `by` are scopes.
    """

    kind: ClassVar = "step.held_up"
    keys: tuple[str, ...]
    by: tuple[str, ...] = ()
    step: str = ""


LifeState = Literal["forming", "planning", "executing", "synthesizing", "completed", "dissolved"]
MessageType = Literal["chat", "assist_request", "assist", "decision"]


class TeamLife(Record, frozen=True):
    """A team is in this state from now on, with this lead and these members; `left` are those who have left it."""

    kind: ClassVar = "team.life"
    state: LifeState
    lead: str
    members: tuple[str, ...]
    left: tuple[str, ...] = ()
    reason: str = ""


class TeamMessage(Record, frozen=True):
    """A member said something to others: `text` is what travels, `original` the artifact with the whole text.

    A request for assistance and its answer belong to a `round` of a step; a `decision` of the lead ends the rounds.
    """

    kind: ClassVar = "team.message"
    type: MessageType
    by: str
    to: tuple[str, ...]
    text: str
    original: str = ""
    step: str = ""
    round: int = 0


TeamFact = (
    TeamStarted | TeamReopened | TeamEnded
    | TeamSelected | TeamRouted | TeamHandoff | TeamDecided | TeamReplyRejected | TeamEmitted | TeamBounded
    | TeamGoalReached | TeamEscalated | TeamEvaluationStarted | TeamEvaluationResult
    | TeamPlanned | TeamRoleBound | TeamStepAssigned | TeamStepFailed | TeamStepCompleted
    | TeamMessageSent | TeamChannelOpened | TeamChannelClosed
    | TeamPlanChanged | TeamPlanStatus | TeamPlanProposed | TeamMerged
    | TeamLife | TeamMessage
    | StepSkipped | StepHeldUp
)  # fmt: skip
