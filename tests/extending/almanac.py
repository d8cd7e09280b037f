"""A kind of tool as another package writes it: its settings, its source, and the kind that manifests name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, Field, JsonValue

from teamwright import Context
from teamwright.agents import Arguments, BuildOptions, ToolContext, ToolDefinition, ToolKind, ToolSource, ToolSpec
from teamwright.errors import ToolError

CITY: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
asked: list[str] = []


class Almanac(BaseModel):
    """The settings of the kind."""

    weather: str = Field(default="rain", description="what it always says")


class AlmanacSource(ToolSource):
    """Two tools that know the weather."""

    kind = "almanac"
    tool_names = ("forecast", "season")

    def __init__(
        self, settings: Almanac | None = None, name: str = "almanac", spec: str | ToolSpec | None = None
    ) -> None:
        self.name, self.spec = name, spec
        self._settings = settings or Almanac()

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition("forecast", "Tell tomorrow's weather in a city.", CITY),
            ToolDefinition("season", "Tell the season.", {"type": "object", "properties": {}}),
        ]

    def validate(self, name: str, arguments: Arguments) -> None:
        if name == "forecast" and not isinstance(arguments.get("city"), str):
            raise ToolError("Name a city.")

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        asked.append(context.idempotency_key)
        return self._settings.weather if name == "forecast" else "autumn"


class AlmanacKind(ToolKind[Almanac]):
    """`{almanac: {weather: …}}` in a manifest."""

    name = "almanac"
    model = Almanac

    def build(self, settings: Almanac, options: BuildOptions) -> ToolSource:
        return AlmanacSource(settings, options.name or self.name, options.spec)

    def code(self, settings: Almanac) -> Iterable[tuple[str, str]]:
        raise AssertionError("code that is only told of is not loaded")
