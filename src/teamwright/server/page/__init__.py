"""What a page shows of a run: page events, the prompts of turns, and the run as one file. Nothing here drives a run.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.runtime.prompts import PromptMessage, PromptRequest, PromptTool, TurnPrompt, rebuild_prompt
    from teamwright.server.page.export import PageBundle, export_html
    from teamwright.server.page.page_events import (
        PageAnswer,
        PageBudget,
        PageCheckpoint,
        PageDelta,
        PageEvent,
        PageExpertJoined,
        PageExpertLeft,
        PageExpertResult,
        PageExpertStep,
        PageIntervention,
        PageMessage,
        PageNote,
        PagePhase,
        PagePlanUpdate,
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
        PageVerdict,
        PageVote,
        PageWait,
        PageWarning,
        page_schema,
    )
    from teamwright.server.page.reader import read_page_events

__all__ = [
    "PageAnswer",
    "PageBudget",
    "PageBundle",
    "PageCheckpoint",
    "PageDelta",
    "PageEvent",
    "PageExpertJoined",
    "PageExpertLeft",
    "PageExpertResult",
    "PageExpertStep",
    "PageIntervention",
    "PageMessage",
    "PageNote",
    "PagePhase",
    "PagePlanUpdate",
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
            "PageAnswer PageBudget PageCheckpoint PageDelta PageEvent "
            "PageExpertJoined PageExpertLeft PageExpertResult PageExpertStep "
            "PageIntervention PageMessage PageNote PagePhase "
            "PagePlanUpdate PageQuestion PageRun PageStep PageTeamDissolved "
            "PageTeamFormed PageTeamLife PageTeamSynthesis PageThinking PageToolCall PageToolResult "
            "PageVerdict PageVote PageWait PageWarning page_schema"
        ),
        "teamwright.runtime.prompts": "PromptMessage PromptRequest PromptTool TurnPrompt rebuild_prompt",
        "teamwright.server.page.reader": "read_page_events",
    },
)
