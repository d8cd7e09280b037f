"""Strategy blocks: the field of a team with the name of its strategy holds the strategy's options.

Only here, a model in place of an agent in options (`selector: {model: primary}`) becomes a helper agent named
`<team>-<strategy>`, so that records, strategies and the engine only see agents.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.documents.nodes import Entry, Fields, ProblemReport, Scalar, shown
from teamwright.documents.schema_check import SchemaCheck
from teamwright.strategies.registry import strategy_names
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.teams.manifests.schema import AGENT, MODEL, definitions, section_value, takes_model
from teamwright.values.names import NAME, plain_strategy_name, suggest_name
from teamwright.values.specs.manifest import TeamSpec

DEFAULT = TeamSpec.model_construct(members=()).strategy
OPTIONS = "options"


def strategy_of(fields: Fields) -> str:
    """The normalised name of a team's strategy, whether it exists or not."""
    written = fields.text("strategy")
    return plain_strategy_name(str(written.value)) if written else DEFAULT


def with_options(team: Declaration, declared: Declarations, report: ProblemReport) -> Declaration:
    """The team with its options moved to `options`; the entry keeps the key that the file uses."""
    entries, own, known = dict(team.fields.entries), strategy_of(team.fields), strategy_names()
    for key, entry in team.fields.entries.items():
        name = plain_strategy_name(key)
        if key in TeamSpec.model_fields or name not in known:
            continue
        del entries[key]
        if name == own and OPTIONS not in entries:
            entries[OPTIONS] = entry
        elif name == own:
            first = entries[OPTIONS].key
            report.problem(entry.place, f"{team.words} has {first!r} and {key!r}", "keep one: both are its options")
        elif own in known:
            message = f"{team.words}: {key!r} is for another strategy; this team's is {shown(own)}"
            report.problem(entry.place, message, f"write  strategy: {key}  or remove it")
    team = replace(team, node=Fields(entries, team.fields.place))
    return with_helper(team, declared, report)


def with_helper(team: Declaration, declared: Declarations, report: ProblemReport) -> Declaration:
    """The team with a helper agent in place of the model in its options; declares that agent."""
    options, strategy = team.fields.get(OPTIONS), strategy_of(team.fields)
    if not isinstance(options, Fields) or not takes_model(strategy):
        return team
    given = options.entries.get(MODEL)
    rest = {key: entry for key, entry in options.entries.items() if key != MODEL}
    if given is None and (AGENT in rest or not team.ark):
        return team
    if given is None:  # in ARK, the default model selects if none is named
        rest[AGENT] = _helper(team, strategy, Fields({}, options.place), declared, report)
    elif AGENT in rest:
        block = team.fields.entries[OPTIONS].key
        report.problem(given.place, f"{team.words}: {block!r} has 'agent' and 'model'", "keep one of them")
    else:
        node = Fields({MODEL: given}, given.node.place)
        SchemaCheck(team.words, report, definitions()).check(node, section_value("agents"))
        rest[AGENT] = _helper(team, strategy, node, declared, report, given)
    return replace(team, node=team.fields.with_value(OPTIONS, Fields(rest, options.place)))


def _helper(
    team: Declaration,
    strategy: str,
    node: Fields,
    declared: Declarations,
    report: ProblemReport,
    given: Entry | None = None,
) -> Entry:
    """Declare the helper agent, and return the option that names it."""
    name = f"{team.name if NAME.fullmatch(team.name) else suggest_name(team.name)}-{strategy}"
    place = given.place if given else node.place
    declared.add(Declaration("agent", name, place, node, team.folder, team.ark), report)
    return Entry(given.key if given else AGENT, place, Scalar(name, node.place))
