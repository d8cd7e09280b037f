"""`teamwright new`: creates a team folder that runs offline at once and is easy to change.

The teams that it writes, one per strategy, all answer the same question with the same members, so that two strategies
can be compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import dumps as json_text
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


WIDTH = 120
"""Characters in a line of a program."""

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

PROGRAM = """\
\"\"\"{about}.

It runs offline with the replies in replies.yaml; set MODEL for a real one.
\"\"\"

import sys
from pathlib import Path

from teamwright import Limits, ModelAgent, ScriptedAgent, Team, run_sync
from teamwright.agents import Script

TASK = "{task}"
MODEL = ""  # for example "openai:gpt-5-mini", with its key in the environment, or "local"
INSTRUCTIONS = {{
{instructions}
}}


def new_team(model: str = MODEL) -> Team:
    \"\"\"The team on this model, or with the scripted replies if none is named.\"\"\"

    def agent(name: str) -> ModelAgent | ScriptedAgent:
        if model:
            return ModelAgent(name, model, instructions=INSTRUCTIONS[name])
        return ScriptedAgent(name, Script.load(Path(__file__).with_name("replies.yaml")))

    return Team(
        "{name}",
        members=[{members}],
{arguments}        limits=Limits(tokens=20000, seconds=300),
    )


if __name__ == "__main__":
    result = run_sync(new_team(), sys.argv[1] if len(sys.argv) > 1 else TASK)
    print(result.output or f"{{result.status}}: see  teamwright runs show {{result.run_id}}")
    sys.exit(result.exit_code)
"""

TEST = """\
from {module} import TASK, new_team
from teamwright import run_sync


def test_the_team_answers() -> None:
    result = run_sync(new_team(model=""), TASK, journal="memory")
    assert result.status == "completed", result
    assert result.output
"""

REPLIES = """\
# Scripted replies, so that the team runs without a model. The first rule that matches answers.
rules:
{rules}"""

README = """\
# {name}

A team for Teamwright: {about}.
`{file}` declares it, `replies.yaml` lets it run offline.

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

PROGRAM_CHANGES = """\
- `MODEL` in `{module}.py`: `"openai:gpt-5-mini"`, any other provider, or `"local"`.
- `INSTRUCTIONS` and `members`: add an agent, and add it to the list. An agent may be a function, too: `FunctionAgent`.
- `strategy`: how the members work together; `teamwright new other --python --strategy NAME` shows another one.
- `test_{module}.py`: pytest runs it offline, whatever `MODEL` is.
"""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team's name, or a path that ends in it.")],
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="How its members work together.")
    ] = "sequential",
    python: Annotated[bool, typer.Option("--python", help="Declare the team in Python, with a test.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Create a team folder that runs at once.

    Examples:
      teamwright new my-team
      teamwright new my-team --strategy selector --python
    """
    check_out(out)
    folder, files, command = scaffold(Path(name), strategy, python=python)
    if json:
        write_json({"folder": str(folder), "files": [str(file) for file in files], "command": command}, out)
    else:
        made = "\n".join(f"  {file}" for file in files)
        write_result(f"created\n{made}\nrun it with:\n  {command}", out)
    return 0


def scaffold(folder: Path, strategy: str, *, python: bool) -> tuple[Path, list[Path], str]:
    """Write the folder and return it with its files and the command that runs it; never overwrites a file."""
    from teamwright.errors import UsageError
    from teamwright.values.names import check_name

    name = check_name("team", folder.name)
    strategy, template = find_template(strategy)
    module = "team_" + re.sub(r"\W", "_", name)
    runner = f"python {_quoted(str(folder / module))}.py" if python else f"teamwright run {_quoted(str(folder))}"
    command = f'{runner} "{TASK}"'
    if python:
        texts = _python_files(name, module, strategy, template, command)
    else:
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
        about=_about(strategy, template),
        agents=agents,
        name=_key(name),
        strategy=strategy,
        members=", ".join(template.members),
        options=turns + options,
    )
    changes = MANIFEST_CHANGES.format(folder=_quoted(str(folder)))
    readme = README.format(name=name, about=template.about, file="team.yaml", command=command, changes=changes)
    return {"team.yaml": manifest, "replies.yaml": REPLIES.format(rules=template.replies), "README.md": readme}


def _python_files(name: str, module: str, strategy: str, template: TeamTemplate, command: str) -> dict[str, str]:
    """The texts of a team that is declared in Python; pytest can import the modules of many such teams."""
    indent = " " * 8
    arguments = f'{indent}strategy="{strategy}",\n'
    if template.helpers:
        arguments = f"{indent}helpers=[{_made(template.helpers)}],\n{arguments}"
    if template.options:
        arguments += f"{indent}{_argument('options=', _read(template.options), indent)},\n"
    if template.max_turns:
        arguments += f"{indent}max_turns={template.max_turns},\n"
    program = PROGRAM.format(
        about=_about(strategy, template),
        task=TASK,
        instructions="\n".join(f'    "{one}": "{INSTRUCTIONS[one]}",' for one in template.agents),
        name=name,
        members=_made(template.members),
        arguments=arguments,
    )
    changes = PROGRAM_CHANGES.format(module=module)
    readme = README.format(name=name, about=template.about, file=f"{module}.py", command=command, changes=changes)
    test = TEST.format(module=module)
    replies = REPLIES.format(rules=template.replies)
    return {f"{module}.py": program, "replies.yaml": replies, f"test_{module}.py": test, "README.md": readme}


def _about(strategy: str, template: TeamTemplate) -> str:
    return f"A team with the strategy {strategy}: {template.about}"


def _made(names: tuple[str, ...]) -> str:
    return ", ".join(f'agent("{one}")' for one in names)


def _read(text: str) -> JsonValue:
    """What YAML means by a text; nothing if it is not YAML as manifests have it."""
    from teamwright.documents.nodes import Place, ProblemReport, plain
    from teamwright.documents.reader import parse_documents

    nodes = parse_documents(text, Place("options"), ProblemReport())
    return plain(nodes[0]) if nodes else None


def _key(name: str) -> str:
    """The name as a key in YAML, in quotes if it would be a number or another value."""
    return name if _read(f"- {name}") == [name] else f'"{name}"'


def _argument(prefix: str, value: JsonValue, indent: str) -> str:
    """A value as Python code in the usual format: in one line if it fits, else one item a line."""
    deeper = indent + " " * 4
    line = f"{indent}{prefix}{_literal(value)},"
    if len(line) <= WIDTH or not isinstance(value, dict | list):
        return line.strip().removesuffix(",")
    items = (
        [(f'"{key}": ', item) for key, item in value.items()] if isinstance(value, dict) else [("", v) for v in value]
    )
    lines = "".join(f"{deeper}{_argument(before, item, deeper)},\n" for before, item in items)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{prefix}{opening}\n{lines}{indent}{closing}"


def _literal(value: JsonValue) -> str:
    """A value as Python code in one line, with double quotes."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_literal(item) for item in value) + "]"
        case str():
            return json_text(value)
        case _:
            return repr(value)


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
