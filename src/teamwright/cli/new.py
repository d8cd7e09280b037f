"""`teamwright new`: creates a team folder that runs offline at once and is easy to change.

The teams that it writes, one per strategy, all answer the same question with the same members, so that two strategies
can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result
from teamwright.values.names import plain_strategy_name

if TYPE_CHECKING:
    from pydantic import JsonValue


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
      answer: writer
""",
    ),
    "plan": TeamTemplate("steps, each as soon as its own inputs are there; every setting of plans", options=STEPS),
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
        options="      lead: editor\n      max_iterations: 3\n",
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
        - {agent: researcher, on: workflow.started, emits: [{type: facts.found}]}
        - {agent: writer, on: facts.found}
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
}


def find_template(strategy: str) -> tuple[str, TeamTemplate]:
    """Return the name of a strategy, which may be spelt with `-`, and its template; raises `UnknownName`."""
    from teamwright.errors import UnknownName
    from teamwright.strategies.registry import missing_strategy

    name, known = plain_strategy_name(strategy), all_templates()
    if name not in known:
        raise missing_strategy(name) or UnknownName("strategy", strategy, known)
    return name, known[name]


def all_templates() -> dict[str, TeamTemplate]:
    """Return the templates by the name of their strategy, those that wings bring last."""
    from teamwright.wings import hooks

    brought = cast("list[dict[str, TeamTemplate]]", hooks("team_templates"))
    return TEMPLATES | {name: one for templates in brought for name, one in templates.items()}


MANIFEST = """\
# {about}.
# It runs offline with the replies in replies.yaml; see README.md for real models.
agents:
{agents}
teams:
  {name}:
    strategy: {strategy}
    members: [{members}]
{options}    limits: {{tokens: 20000, seconds: 300}}

models:
  primary: scripted:replies.yaml
  # primary: openai:gpt-5-mini               a provider, with its key in the environment
  # primary: local                           the embedded model, after `teamwright doctor --install`
  # primary: {{url: http://localhost:8000/v1, name: my-model}}
"""

REPLIES = """\
# Scripted replies, so that the team runs without a model. The first rule that matches answers.
rules:
{rules}"""

README = """\
# {name}

A team for Teamwright: {about}.
`team.yaml` declares it, `replies.yaml` lets it run offline.

    {command}

What to change first:

{changes}
Afterwards:

    teamwright runs show last
"""

MANIFEST_CHANGES = """\
- `models.primary` in `team.yaml`: `openai:gpt-5-mini`, any other provider, `local`, or your own server. Or keep the
  file and try a model once: `teamwright run {folder} "…" --model openai:gpt-5-mini`
- `instructions` and `members`: add an agent, and add it to the list.
- `strategy`: how the members work together; `teamwright new other --strategy NAME` shows another one.
- `teamwright validate {folder}` reports every mistake with its line.
"""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team's name, or a path that ends in it.")],
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="How its members work together.")
    ] = "sequential",
    with_tests: Annotated[
        bool, typer.Option("--with-tests", help="Also run it once, and make a case of that for teamwright test.")
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Create a team folder that runs at once.

    Examples:
      teamwright new my-team
      teamwright new my-team --strategy selector
    """
    check_out(out)
    folder, files, command = scaffold(Path(name), strategy)
    if with_tests:
        files += _first_case(folder)
    if json:
        write_json({"folder": str(folder), "files": [str(file) for file in files], "command": command}, out)
    else:
        made = "\n".join(f"  {file}" for file in files)
        test = f"\ntest it with:\n  teamwright test {_quoted(str(folder))}" if with_tests else ""
        write_result(f"created\n{made}\nrun it with:\n  {command}{test}", out)
    return 0


def _first_case(folder: Path) -> list[Path]:
    """Run the team of a new folder in memory, and write the case of its run; returns its files."""
    import anyio

    from teamwright.runtime.engine import Engine
    from teamwright.teams.team_loader import load_team
    from teamwright.testing.case_file import LoadedCase, recording_path
    from teamwright.testing.case_replay import case_of_run, with_prompts, write_case
    from teamwright.values.specs.manifest import Source

    path = folder / "tests" / "cases" / "first.yaml"

    async def run() -> tuple[LoadedCase, Source]:
        async with Engine("memory") as engine:
            result = await engine.run(load_team(folder), TASK, run_id="first")
            history = await engine.runs.history(result.run_id)
            case, source, _ = await case_of_run(engine.journal, history, result, path)
            return case, source

    path.parent.mkdir(parents=True)
    write_case(with_prompts(*anyio.run(run)))
    return [path, recording_path(path)]


def scaffold(folder: Path, strategy: str) -> tuple[Path, list[Path], str]:
    """Write the folder and return it with its files and the command that runs it; never overwrites a file."""
    from teamwright.errors import UsageError
    from teamwright.values.names import check_name

    name = check_name("team", folder.name)
    strategy, template = find_template(strategy)
    command = f'teamwright run {_quoted(str(folder))} "{TASK}"'
    texts = _manifest_files(name, strategy, template, folder, command)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{str(folder)!r} exists already and is not empty; choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        files: list[Path] = []
        for file, text in texts.items():
            with (folder / file).open("x", encoding="utf-8") as opened:
                opened.write(text)
            files.append(folder / file)
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} can't be created: {error.strerror}.") from error
    return folder, files, command


def _manifest_files(name: str, strategy: str, template: TeamTemplate, folder: Path, command: str) -> dict[str, str]:
    agents = "".join(
        f"  {one}:\n    model: primary\n    instructions: {INSTRUCTIONS[one]}\n" for one in template.agents
    )
    turns = f"    max_turns: {template.max_turns}\n" if template.max_turns else ""
    options = f"    {strategy}:\n{template.options}" if template.options else ""
    manifest = MANIFEST.format(
        about=f"A team with the strategy {strategy}: {template.about}",
        agents=agents,
        name=_key(name),
        strategy=strategy,
        members=", ".join(template.members),
        options=turns + options,
    )
    changes = MANIFEST_CHANGES.format(folder=_quoted(str(folder)))
    readme = README.format(name=name, about=template.about, command=command, changes=changes)
    return {"team.yaml": manifest, "replies.yaml": REPLIES.format(rules=template.replies), "README.md": readme}


def _read(text: str) -> JsonValue:
    """What YAML means by a text; nothing if it is not YAML as manifests have it."""
    from teamwright.documents.nodes import Place, ProblemReport, plain
    from teamwright.documents.reader import parse_documents

    nodes = parse_documents(text, Place("options"), ProblemReport())
    return plain(nodes[0]) if nodes else None


def _key(name: str) -> str:
    """The name as a key in YAML, in quotes if it would be a number or another value."""
    return name if _read(f"- {name}") == [name] else f'"{name}"'


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
