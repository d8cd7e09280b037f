"""The wing of expert teams: roles, reviews, skills and templates, on the plans of the core."""

from teamwright.wings import Wing

WING = Wing(
    name="experts",
    commands={
        "ask": "teamwright.experts.ask_command:ask",
        "experts": "teamwright.experts.template_commands:experts",
    },
    first_day={'ask "Plan a bakery."': "one agent or a team of experts for a task, and why"},
    hooks={
        "team_templates": "teamwright.experts.team_templates:TEMPLATES",
        "expand_agents": "teamwright.experts.expert_agent:expand",
        "merge_entries": "teamwright.experts.competition:merge_entries",
        "form_team": "teamwright.experts.routes:formed_team",
        "routes": "teamwright.experts.routes:router",
        "operations": "teamwright.experts.routes:experts_part",
    },
)
