"""The declaration of an evaluation: criteria, judges, and what happens when work does not pass.

How work is evaluated lies in the evaluator, which may be of another package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator
from pydantic_core import to_json

from teamwright.values.specs.tools import AgentName, AnySandbox, Command, Name
from teamwright.values.text.timed_regex import pattern_problem
from teamwright.values.turns.messages import digest
from teamwright.values.value import Value

Reducer = Literal["median", "mean", "min"]
Risk = Literal["low", "medium", "high"]

KINDS = ("length", "contains", "regex", "output_schema", "function", "command", "judge")
"""The fields of a criterion that say what it checks, of which it has one."""
NOT_BLANK = "not-blank"
RUBRIC = "rubric"


class Length(Value):
    """Bounds of the number of characters of a text."""

    min: int = Field(default=0, ge=0, description="the fewest characters")
    max: int | None = Field(default=None, ge=0, description="the most characters")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max is {self.max}, and min is {self.min}: no text has such a length")
        return self


class Criterion(Value):
    """One criterion: exactly one of the fields from `length` to `judge` says what is checked."""

    id: Name = Field(description="its name in verdicts")
    length: Length | None = Field(
        default=None, description="the text has so many characters: {min, max}; blanks alone are none"
    )
    contains: str | None = Field(default=None, min_length=1, description="the text contains this")
    regex: str | None = Field(default=None, description="the text matches this expression somewhere")
    output_schema: dict[str, JsonValue] | None = Field(default=None, description="the text is JSON that fits")
    function: str | None = Field(
        default=None, description="module:function that gets the text and returns true, false, a score, or a pair"
    )
    command: Command | None = Field(default=None, description="a program that gets the text on stdin and exits with 0")
    judge: str | None = Field(default=None, min_length=1, description="a question that the judge answers")
    sandbox: AnySandbox | None = Field(
        default=None,
        description="the sandbox of a program: a back end by name, or settings; that of the team by default",
    )
    expected: JsonValue = Field(
        default=None, description="what a function or a program compares with: `expected` of its context"
    )
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="its share of the score")
    required: bool = Field(default=False, description="whether nothing passes without it, whatever the threshold")
    threshold: float = Field(
        default=0.5, gt=0, le=1, allow_inf_nan=False, description="the least score with which it passes"
    )
    timeout: float = Field(default=60.0, gt=0, allow_inf_nan=False, description="seconds of a function or program")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"it has {' and '.join(given)}" if given else "it has none"
            raise ValueError(f"the criterion {self.id!r} needs exactly one of {', '.join(KINDS)}, and {found}")
        if self.regex is not None and (problem := pattern_problem(self.regex)):
            raise ValueError(f"the regular expression of {self.id!r} can't be used: {problem}")
        if self.function is not None and not all(self.function.partition(":")):
            raise ValueError(f"the check of {self.id!r} is {self.function!r}; write  module:function")
        if self.sandbox is not None and self.command is None:
            raise ValueError(f"sandbox of the criterion {self.id!r} is for checks by  command  alone")
        if self.expected is not None and self.function is None and self.command is None:
            raise ValueError(f"expected of the criterion {self.id!r} is for checks by  function  and  command  alone")
        return self


def code_of_evaluation(evaluate: Evaluate | None) -> Iterator[str]:
    """Return the functions, programs and evaluators of other packages that an evaluation runs."""
    if evaluate is None:
        return
    if ":" in evaluate.evaluator:
        yield evaluate.evaluator
    for one in evaluate.criteria:
        if one.function is not None:
            yield one.function
        if one.command is not None:
            yield " ".join(one.command)


DEFAULT_CRITERIA = (Criterion.model_construct(id=NOT_BLANK, length=Length.model_construct(min=1)),)


class Evaluate(Value):
    """How the work of a team, a member or a step is evaluated, and what happens when it does not pass."""

    evaluator: str = Field(
        default="auto",
        description="who decides: checks, and a judge if there is one (`auto`), checks and a judge that has to be named"
        " (`agent`), checks alone (`rubric`), or an evaluator of your own: `module:Class`",
    )
    criteria: tuple[Criterion, ...] = Field(default=(), description="the rubric; by default the text is not blank")
    threshold: float = Field(
        default=1.0, gt=0, le=1, allow_inf_nan=False, description="the least share of the weights that has to pass"
    )
    judge: AgentName | Annotated[tuple[AgentName, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="the agent or team that answers criteria with `judge`; of several, each judges what the one before"
        " passes, and the marks of the last are reported",
    )
    times: int = Field(default=1, ge=1, le=25, description="how often a judge is asked")
    merge: Reducer = Field(default="median", description="how several scores become one")
    require_other_model: bool = Field(default=False, description="whether a judge may not have its author's model")
    revisions: int = Field(default=0, ge=0, le=19, description="how often the author may revise work that did not pass")
    risk: Risk = Field(default="medium", description="what bad work would cost; with `high`, checks alone decide")
    on_failure: Literal["fail", "warn", "pass", "ask"] | None = Field(
        default=None,
        description="work that does not pass fails its author, or counts with a warning (`warn`), as it does at low"
        " risk; with `pass`, at low risk only, work whose review broke off passes with a warning, too; or a person"
        " decides (`ask`): accept it, let its author revise it with a note, or stop",
    )
    options: dict[str, JsonValue] = Field(default={}, description="options of an evaluator of your own")

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        twice = [name for name, count in Counter(one.id for one in self.criteria).items() if count > 1]
        if twice:
            raise ValueError(f"several criteria are called {twice[0]!r}; give each an id of its own")
        return self

    @model_validator(mode="after")
    def _lenient_at_low_risk(self) -> Self:
        if self.on_failure in ("warn", "pass") and self.risk != "low":
            raise ValueError(
                f"on_failure {self.on_failure!r} is for low risk, and the risk is {self.risk}; set  risk: low"
            )
        return self

    @property
    def rubric(self) -> tuple[Criterion, ...]:
        """The criteria that count, with the default for none; without those for a judge where no judge is asked."""
        checks = tuple(one for one in self.criteria if one.judge is None) if self._checks_alone else ()
        return checks or self.criteria or DEFAULT_CRITERIA

    @property
    def reviews(self) -> bool:
        """Whether anything is reviewed: criteria are declared, or another evaluator than the rubric decides."""
        return bool(self.criteria) or self.evaluator_name != RUBRIC

    @property
    def evaluator_name(self) -> str:
        """The name of the evaluator: the rubric, whether or not a judge is asked, or another one."""
        return RUBRIC if self.evaluator in ("auto", "agent") else self.evaluator

    @property
    def asks_judges(self) -> bool:
        """Whether judges are asked about work that passes the checks."""
        return self.judge is not None and not self._checks_alone

    @property
    def counts_with_warning(self) -> bool:
        """Whether work that did not pass in any round counts with a warning."""
        return self.risk == "low" if self.on_failure is None else self.on_failure in ("warn", "pass")

    @property
    def passes_unreviewed(self) -> bool:
        """Whether work whose review broke off passes with a warning."""
        return self.risk == "low" and self.on_failure == "pass"

    @property
    def _checks_alone(self) -> bool:
        return self.risk == "high" or self.evaluator == RUBRIC

    def at_risk(self, risk: Risk) -> Evaluate:
        """Return the evaluation of a team with this risk; one that names a risk of its own keeps it."""
        return self if "risk" in self.model_fields_set else self.model_copy(update={"risk": risk})

    @property
    def rubric_digest(self) -> str:
        """The digest that identifies the rubric in records; any change of its criteria changes it."""
        said = [one.model_dump(mode="json", exclude_defaults=True) for one in self.rubric]
        return digest(to_json(said).decode(), str(self.threshold))

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judges, in the order in which they are asked."""
        names = (self.judge,) if isinstance(self.judge, str) else self.judge or ()
        return tuple(dict.fromkeys(names))

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of the judges that are asked."""
        return self.judges if self.asks_judges else ()

    def problems(self) -> list[str]:
        """Return what is wrong between its fields, once its judges are known."""
        judged = [one.id for one in self.criteria if one.judge is not None]
        found: list[str] = []
        if judged and self.judge is None and not self._checks_alone:
            found.append(f"the criterion {judged[0]!r} needs a judge; name an agent as  judge")
        if self.evaluator == "agent" and self.judge is None and not judged:
            found.append("the evaluator 'agent' needs a judge; name an agent as  judge")
        if self.judge is not None and not judged and self.evaluator_name == RUBRIC:
            found.append(
                f'the judge {self.judges[0]!r} has nothing to judge; add a criterion with  judge: "a question"'
            )
        if self._checks_alone and judged and len(judged) == len(self.criteria):
            reason = "risk 'high'" if self.risk == "high" else "the evaluator 'rubric'"
            found.append(f"with {reason} checks alone decide, and there is none; add a criterion that is no question")
        return found

    def warnings(self) -> list[str]:
        """Return what a reader may not expect of it."""
        judged = [one.id for one in self.criteria if one.judge is not None]
        if self.risk != "high" or not judged:
            return []
        return [f"at high risk checks alone decide: no judge is asked, so these do not count: {', '.join(judged)}"]
