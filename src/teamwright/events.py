"""What a run records. Match events by the type of their fact: `match event.fact: case AgentReplied(): …`.

Names load on first use, so that importing the module costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.events.budget import (
        BudgetDegraded,
        BudgetEased,
        BudgetExceeded,
        BudgetOpened,
        BudgetRefused,
        BudgetThrottled,
        BudgetUnpriced,
    )
    from teamwright.values.events.event import (
        AgentAbandoned,
        AgentAsked,
        AgentCalled,
        AgentCallFailed,
        AgentFailed,
        AgentRecovered,
        AgentReplied,
        AgentReturned,
        Custom,
        Delta,
        Event,
        Fact,
        MessageRef,
        Origin,
        PersonAnswered,
        PersonAsked,
        RunAborted,
        RunCheckpoint,
        RunEnded,
        RunInterrupted,
        RunIntervened,
        RunLogged,
        RunMeasured,
        RunNotified,
        RunPaused,
        RunResumed,
        RunStarted,
        ScopeExpired,
        ScopeWaited,
        StepHeldUp,
        StepSkipped,
        Tally,
        TeamBounded,
        TeamChannelClosed,
        TeamChannelOpened,
        TeamDecided,
        TeamEmitted,
        TeamEnded,
        TeamEscalated,
        TeamGoalReached,
        TeamPlanned,
        TeamReopened,
        TeamRouted,
        TeamSelected,
        TeamStarted,
        TeamTold,
        TeamToldBack,
        TimerFired,
        TimerSet,
        WorkspaceConflicted,
        WorkspaceKept,
        WorkspaceWritten,
    )

__all__ = [
    "AgentAbandoned",
    "AgentAsked",
    "AgentCallFailed",
    "AgentCalled",
    "AgentFailed",
    "AgentRecovered",
    "AgentReplied",
    "AgentReturned",
    "BudgetDegraded",
    "BudgetEased",
    "BudgetExceeded",
    "BudgetOpened",
    "BudgetRefused",
    "BudgetThrottled",
    "BudgetUnpriced",
    "Custom",
    "Delta",
    "Event",
    "Fact",
    "MessageRef",
    "Origin",
    "PersonAnswered",
    "PersonAsked",
    "RunAborted",
    "RunCheckpoint",
    "RunEnded",
    "RunInterrupted",
    "RunIntervened",
    "RunLogged",
    "RunMeasured",
    "RunNotified",
    "RunPaused",
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
    "TeamGoalReached",
    "TeamPlanned",
    "TeamReopened",
    "TeamRouted",
    "TeamSelected",
    "TeamStarted",
    "TeamTold",
    "TeamToldBack",
    "TimerFired",
    "TimerSet",
    "WorkspaceConflicted",
    "WorkspaceKept",
    "WorkspaceWritten",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.values.events.budget": """
            BudgetDegraded BudgetEased BudgetExceeded BudgetOpened BudgetRefused BudgetThrottled
            BudgetUnpriced
        """,
        "teamwright.values.events.event": """
            AgentAbandoned AgentAsked AgentCallFailed AgentCalled AgentFailed AgentRecovered AgentReplied
            AgentReturned Custom Delta Event Fact MessageRef Origin PersonAnswered PersonAsked RunAborted
            RunCheckpoint RunEnded RunInterrupted RunIntervened RunLogged RunMeasured RunNotified RunPaused
            RunResumed RunStarted ScopeExpired ScopeWaited StepHeldUp StepSkipped Tally TeamBounded
            TeamChannelClosed TeamChannelOpened TeamDecided TeamEmitted TeamEnded TeamEscalated
            TeamGoalReached TeamPlanned TeamReopened TeamRouted TeamSelected TeamStarted TeamTold
            TeamToldBack TimerFired TimerSet WorkspaceConflicted WorkspaceKept WorkspaceWritten
        """,
    },
)
