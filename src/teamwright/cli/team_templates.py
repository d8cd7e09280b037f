"""The teams that `teamwright new` writes: for each strategy a small one with its options, which runs offline at once.

All of them answer the same question with the same members, so that two strategies can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from teamwright.values.names import plain_strategy_name

TASK = "Why does sourdough taste of more than bread?"
INSTRUCTIONS = {
    "researcher": "Collect the facts that matter for the task. Three short points, no more.",
    "writer": "Write one clear paragraph from what the others found.",
    "editor": "Lead the work. Say who does what, and what is missing.",
}
"""The members that a template may have, with their instructions."""

FACTS = """\
  - agent: researcher
    reply: |
      - Sourdough rises because wild yeast and bacteria live in the starter.
      - The bacteria make the acids that give it its taste and keep it fresh.
      - It needs hours where baker's yeast needs minutes.
"""
PARAGRAPH = """\
  - agent: writer
    reply: >-
      Sourdough is bread that rises slowly: wild yeast and bacteria in the starter do in hours what baker's yeast does
      in minutes, and on the way they make the acids that give the loaf its taste and keep it fresh.
"""
CLOSING = """\
  - agent: editor
    reply: "Sourdough tastes of more because its starter is alive: its bacteria make acids while the dough rises."
"""
LEAD_STEPS = """\
      lead: editor
      steps:
        - {id: facts, agent: researcher, task: Collect the facts.}
        - {id: text, agent: writer, needs: [facts], task: Write one paragraph from the facts.}
"""
STEPS = LEAD_STEPS.partition("\n")[2]


@dataclass(frozen=True, slots=True)
class TeamTemplate:
    """A team with one strategy: its members, its options as YAML, and what the scripted members say first."""

    about: str
    members: tuple[str, ...] = ("researcher", "writer")
    helpers: tuple[str, ...] = ()
    """Agents that the options name, and that are no members."""
    options: str = ""
    max_turns: int | None = None
    rules: str = ""

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents."""
        return (*self.members, *self.helpers)

    @property
    def replies(self) -> str:
        """The scripted replies of the team, as rules in YAML."""
        said = {"researcher": FACTS, "writer": PARAGRAPH, "editor": CLOSING}
        return self.rules + "".join(said[name] for name in self.agents)


WITH_LEAD = ("editor", "researcher", "writer")
TEMPLATES = {
    "sequential": TeamTemplate("one after the other, each reads what was said before"),
    "round_robin": TeamTemplate("in turns, until max_turns or until one calls terminate", max_turns=2),
    "selector": TeamTemplate(
        "an agent chooses who speaks next",
        helpers=("editor",),
        options="      agent: editor\n",
        max_turns=2,
        rules="  - {agent: editor, reply: researcher, times: 1}\n  - {agent: editor, reply: writer}\n",
    ),
    "graph": TeamTemplate(
        "along edges, which may have conditions and loops",
        members=("researcher", "writer", "editor"),
        options="      edges:\n        - {from: researcher, to: writer}\n        - {from: writer, to: editor}\n",
        max_turns=6,
    ),
    "fan_out": TeamTemplate(
        "the same work on several parts at once, then one answer",
        members=("researcher",),
        helpers=("writer",),
        options="""\
      chunks: [its history, its chemistry, its taste]
      task: "{{ task }} Look at {{ chunk }}."
      aggregator: writer
""",
    ),
    "dag": TeamTemplate(
        "steps that need each other's results; the others run at the same time",
        options="""\
      steps:
        - {id: facts, agent: researcher}
        - {id: text, agent: writer, needs: [facts]}
""",
    ),
    "hierarchical": TeamTemplate(
        "an orchestrator delegates, as often as needed, and gives the answer",
        helpers=("editor",),
        options="      orchestrator: editor\n      max_iterations: 3\n",
        rules="""\
  - agent: editor
    times: 1
    json: {action: delegate, delegations: [{specialist: researcher, task: Which facts matter?}]}
  - agent: editor
    times: 1
    json: {action: synthesize, synthesis: "The bacteria in its starter make acids while the dough rises."}
""",
    ),
    "reactive": TeamTemplate(
        "members react to events, and their work makes new ones",
        options="""\
      subscriptions:
        - {member: researcher, on: workflow.started, emits: [{type: facts.found}]}
        - {member: writer, on: facts.found}
      max_events: 10
""",
    ),
    "single": TeamTemplate(
        "one agent executes all steps of a plan",
        members=("writer",),
        options="""\
      steps:
        - {id: outline, task: Outline the answer.}
        - {id: text, needs: [outline], task: Write it as one paragraph.}
""",
    ),
    "lead_subagent": TeamTemplate(
        "a lead with one subagent at a time",
        members=("editor", "writer"),
        options="""\
      lead: editor
      steps:
        - {id: outline, task: Outline the answer.}
        - {id: text, needs: [outline], task: Write it as one paragraph.}
""",
    ),
    "star_team": TeamTemplate("workers at the same time, with a lead in the centre", WITH_LEAD, options=LEAD_STEPS),
    "mesh_team": TeamTemplate("members who talk to each other directly", WITH_LEAD, options=LEAD_STEPS),
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


def find_template(strategy: str) -> tuple[str, TeamTemplate]:
    """Return the name of a strategy, which may be spelt with `-`, and its template; raises `UnknownName`."""
    from teamwright.errors import UnknownName
    from teamwright.strategies.registry import strategy_names

    name, known = plain_strategy_name(strategy), set(TEMPLATES).intersection(strategy_names())
    if name not in known:
        raise UnknownName("strategy", strategy, known)
    return name, TEMPLATES[name]
