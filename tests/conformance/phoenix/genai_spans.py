"""Prints the spans that `opentelemetry-util-genai` makes of a team, a member, a request and a tool, as JSON.

It runs in an environment that has that library, and not this package.
"""

# pyright: basic, reportMissingImports=false

import json
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
handler = TelemetryHandler(tracer_provider=provider)
with handler.workflow("t"), handler.invoke_local_agent(agent_name="a"):
    with handler.inference("openai", request_model="m") as request:
        request.input_tokens, request.output_tokens = 100, 20
        request.max_tokens = 64
        request.cache_read_input_tokens = 40
        request.thinking_tokens = 5
    with handler.tool("lookup", tool_type="function"):
        pass
found = [
    {
        "name": one.name,
        "kind": one.kind.name,
        "parent": one.parent is not None,
        "attributes": dict(one.attributes or {}),
    }
    for one in exporter.get_finished_spans()
]
json.dump(found, sys.stdout)
