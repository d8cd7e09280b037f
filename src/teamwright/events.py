"""Facade of the events that a run records. Match them by type: `match event.fact: case AgentReplied(): …`.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.events.agent import (
        AgentAbandoned,
        AgentAsked,
        AgentCalled,
        AgentCallFailed,
        AgentCallRejected,
        AgentChecked,
        AgentCompacted,
        AgentFailed,
        AgentModeRefused,
        AgentProgressed,
        AgentRecovered,
        AgentReplied,
        AgentReturned,
        Tally,
        TextRef,
    )
    from teamwright.values.events.body import MessageRef
    from teamwright.values.events.budget import (
        BudgetAwaited,
        BudgetDegraded,
        BudgetEased,
        BudgetExceeded,
        BudgetMisreported,
        BudgetOpened,
        BudgetRaised,
        BudgetRefused,
        BudgetThrottled,
        BudgetUnpriced,
    )
    from teamwright.values.events.custom import Custom
    from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, Event, Fact, ThinkingDelta
    from teamwright.values.events.fold import Fold, fold
    from teamwright.values.events.live import TeamLife, TeamMessage
    from teamwright.values.events.person import PersonAnswered, PersonAsked
    from teamwright.values.events.plan import (
        TeamMerged,
        TeamPhase,
        TeamPlanChanged,
        TeamPlanProposed,
        TeamPlanStatus,
    )
    from teamwright.values.events.run import (
        Origin,
        PlacedTurn,
        RunAborted,
        RunApplied,
        RunCheckpoint,
        RunEnded,
        RunInterrupted,
        RunIntervened,
        RunLogged,
        RunMeasured,
        RunNotified,
        RunPaused,
        RunQueued,
        RunRefused,
        RunResumed,
        RunStarted,
        ScopeExpired,
        ScopeWaited,
        TimerFired,
        TimerSet,
    )
    from teamwright.values.events.step import StepHeldUp, StepSkipped
    from teamwright.values.events.team import (
        TeamBounded,
        TeamChannelClosed,
        TeamChannelOpened,
        TeamDecided,
        TeamEmitted,
        TeamEnded,
        TeamEscalated,
        TeamEvaluationResult,
        TeamEvaluationStarted,
        TeamGoalReached,
        TeamHandoff,
        TeamMessageSent,
        TeamPlanned,
        TeamReopened,
        TeamReplyRejected,
        TeamRoleBound,
        TeamRouted,
        TeamSelected,
        TeamStarted,
        TeamStepAssigned,
        TeamStepCompleted,
        TeamStepFailed,
    )
    from teamwright.values.events.workspace import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
    from teamwright.values.verdicts import CriterionResult, EvaluationVerdict, JudgeRecord

__all__ = [
    "AgentAbandoned",
    "AgentAsked",
    "AgentCallFailed",
    "AgentCallRejected",
    "AgentCalled",
    "AgentChecked",
    "AgentCompacted",
    "AgentFailed",
    "AgentModeRefused",
    "AgentProgressed",
    "AgentRecovered",
    "AgentReplied",
    "AgentReturned",
    "AnyDelta",
    "ArgumentsDelta",
    "BudgetAwaited",
    "BudgetDegraded",
    "BudgetEased",
    "BudgetExceeded",
    "BudgetMisreported",
    "BudgetOpened",
    "BudgetRaised",
    "BudgetRefused",
    "BudgetThrottled",
    "BudgetUnpriced",
    "CriterionResult",
    "Custom",
    "Delta",
    "EvaluationVerdict",
    "Event",
    "Fact",
    "Fold",
    "JudgeRecord",
    "MessageRef",
    "Origin",
    "PersonAnswered",
    "PersonAsked",
    "PlacedTurn",
    "RunAborted",
    "RunApplied",
    "RunCheckpoint",
    "RunEnded",
    "RunInterrupted",
    "RunIntervened",
    "RunLogged",
    "RunMeasured",
    "RunNotified",
    "RunPaused",
    "RunQueued",
    "RunRefused",
    "RunResumed",
    "RunStarted",
    "ScopeExpired",
    "ScopeWaited",
    "StepHeldUp",
    "StepSkipped",
    "Tally",
    "TeamBounded",
    "TeamChannelClosed",
    "TeamChannelOpened",
    "TeamDecided",
    "TeamEmitted",
    "TeamEnded",
    "TeamEscalated",
    "TeamEvaluationResult",
    "TeamEvaluationStarted",
    "TeamGoalReached",
    "TeamHandoff",
    "TeamLife",
    "TeamMerged",
    "TeamMessage",
    "TeamMessageSent",
    "TeamPhase",
    "TeamPlanChanged",
    "TeamPlanProposed",
    "TeamPlanStatus",
    "TeamPlanned",
    "TeamReopened",
    "TeamReplyRejected",
    "TeamRoleBound",
    "TeamRouted",
    "TeamSelected",
    "TeamStarted",
    "TeamStepAssigned",
    "TeamStepCompleted",
    "TeamStepFailed",
    "TextRef",
    "ThinkingDelta",
    "TimerFired",
    "TimerSet",
    "WorkspaceConflicted",
    "WorkspaceKept",
    "WorkspaceWritten",
    "fold",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.values.events.agent": """
            AgentAbandoned AgentAsked AgentCallFailed AgentCallRejected AgentCalled AgentChecked AgentCompacted
            AgentFailed AgentModeRefused AgentProgressed AgentRecovered AgentReplied AgentReturned Tally
            TextRef
        """,
        "teamwright.values.events.body": "MessageRef",
        "teamwright.values.events.budget": """
            BudgetAwaited BudgetDegraded BudgetEased BudgetExceeded BudgetMisreported BudgetOpened BudgetRaised
            BudgetRefused BudgetThrottled BudgetUnpriced
        """,
        "teamwright.values.events.custom": "Custom",
        "teamwright.values.events.event": "AnyDelta ArgumentsDelta Delta Event Fact ThinkingDelta",
        "teamwright.values.events.fold": "Fold fold",
        "teamwright.values.events.live": "TeamLife TeamMessage",
        "teamwright.values.events.person": "PersonAnswered PersonAsked",
        "teamwright.values.events.plan": "TeamMerged TeamPhase TeamPlanChanged TeamPlanProposed TeamPlanStatus",
        "teamwright.values.events.run": """
            Origin PlacedTurn RunAborted RunApplied RunCheckpoint RunEnded RunInterrupted RunIntervened RunLogged
            RunMeasured RunNotified RunPaused RunQueued RunRefused RunResumed RunStarted ScopeExpired ScopeWaited
            TimerFired TimerSet
        """,
        "teamwright.values.events.step": "StepHeldUp StepSkipped",
        "teamwright.values.events.team": """
            TeamBounded TeamChannelClosed TeamChannelOpened TeamDecided TeamEmitted TeamEnded TeamEscalated
            TeamEvaluationResult TeamEvaluationStarted TeamGoalReached TeamHandoff TeamPlanned TeamReopened
            TeamRoleBound TeamRouted TeamSelected TeamStarted TeamStepAssigned TeamStepCompleted TeamStepFailed
            TeamMessageSent TeamReplyRejected
        """,
        "teamwright.values.verdicts": "CriterionResult EvaluationVerdict JudgeRecord",
        "teamwright.values.events.workspace": "WorkspaceConflicted WorkspaceKept WorkspaceWritten",
    },
)
