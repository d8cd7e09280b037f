"""What a page shows of a run: page events, the prompts of turns, and the run as one file. Nothing here drives a run.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.runtime.prompts import PromptMessage, PromptRequest, PromptTool, TurnPrompt, rebuild_prompt
    from teamwright.server.page.export import PageBundle, export_html
    from teamwright.server.page.page_events import (
        PageAmounts,
        PageAnswer,
        PageArtifact,
        PageBudget,
        PageCheckpoint,
        PageCriterion,
        PageDelta,
        PageEvent,
        PageExpert,
        PageExpertJoined,
        PageExpertLeft,
        PageExpertResult,
        PageExpertStep,
        PageFailure,
        PageForecast,
        PageIntervention,
        PageJudge,
        PageMessage,
        PageNote,
        PageOrigin,
        PagePart,
        PagePhase,
        PagePlanStep,
        PagePlanUpdate,
        PageQuantiles,
        PageQuestion,
        PageRun,
        PageStep,
        PageTeamDissolved,
        PageTeamFormed,
        PageTeamLife,
        PageTeamSynthesis,
        PageThinking,
        PageToolCall,
        PageToolResult,
        PageUsage,
        PageVerdict,
        PageVote,
        PageWait,
        PageWarning,
    )
    from teamwright.server.page.reader import read_page_events
    from teamwright.server.page.schema import page_schema

__all__ = [
    "PageAmounts",
    "PageAnswer",
    "PageArtifact",
    "PageBudget",
    "PageBundle",
    "PageCheckpoint",
    "PageCriterion",
    "PageDelta",
    "PageEvent",
    "PageExpert",
    "PageExpertJoined",
    "PageExpertLeft",
    "PageExpertResult",
    "PageExpertStep",
    "PageFailure",
    "PageForecast",
    "PageIntervention",
    "PageJudge",
    "PageMessage",
    "PageNote",
    "PageOrigin",
    "PagePart",
    "PagePhase",
    "PagePlanStep",
    "PagePlanUpdate",
    "PageQuantiles",
    "PageQuestion",
    "PageRun",
    "PageStep",
    "PageTeamDissolved",
    "PageTeamFormed",
    "PageTeamLife",
    "PageTeamSynthesis",
    "PageThinking",
    "PageToolCall",
    "PageToolResult",
    "PageUsage",
    "PageVerdict",
    "PageVote",
    "PageWait",
    "PageWarning",
    "PromptMessage",
    "PromptRequest",
    "PromptTool",
    "TurnPrompt",
    "export_html",
    "page_schema",
    "read_page_events",
    "rebuild_prompt",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.server.page.export": "PageBundle export_html",
        "teamwright.server.page.page_events": (
            "PageAmounts PageAnswer PageArtifact PageBudget PageCheckpoint PageCriterion PageDelta PageEvent "
            "PageExpert PageExpertJoined PageExpertLeft PageExpertResult PageExpertStep PageFailure "
            "PageForecast PageIntervention PageJudge PageMessage PageNote PageOrigin PagePart PagePhase "
            "PagePlanStep PagePlanUpdate PageQuantiles PageQuestion PageRun PageStep PageTeamDissolved "
            "PageTeamFormed PageTeamLife PageTeamSynthesis PageThinking PageToolCall PageToolResult "
            "PageUsage PageVerdict PageVote PageWait PageWarning"
        ),
        "teamwright.runtime.prompts": "PromptMessage PromptRequest PromptTool TurnPrompt rebuild_prompt",
        "teamwright.server.page.reader": "read_page_events",
        "teamwright.server.page.schema": "page_schema",
    },
)
