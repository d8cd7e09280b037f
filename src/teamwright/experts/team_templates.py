"""The teams that `teamwright new` writes for the strategies of this wing."""

from __future__ import annotations

from teamwright.cli.new import STEPS, WITH_LEAD, TeamTemplate

TEMPLATES = {
    "expert": TeamTemplate("a plan whose steps are reviewed before the next one reads them", options=STEPS),
    "dispatch": TeamTemplate(
        "steps go to whoever is free and fits",
        options="""\
      steps:
        - {id: facts, task: Collect the facts.}
        - {id: text, task: Write one paragraph from the facts., needs: [facts]}
""",
        rules="""\
  - match: Write one paragraph        # whoever is asked
    reply: "Its starter is alive: bacteria make the acids that give the loaf its taste while the dough rises."
""",
    ),
    "react": TeamTemplate(
        "a lead plans a few steps, reads their results, and plans again",
        helpers=("editor",),
        options="      lead: editor\n      max_steps: 4\n",
        rules="""\
  - agent: editor
    times: 1
    json: {action: work, steps: [{id: facts, role: researcher, task: Which facts matter?}]}
  - {agent: editor, times: 1, json: {action: answer}}
""",
    ),
    "collaborate": TeamTemplate("phases, by one or by several members, whose work is merged", WITH_LEAD, options=STEPS),
    "live": TeamTemplate("a plan that people may change while it runs", WITH_LEAD, options=STEPS),
}
