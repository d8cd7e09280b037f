"""Translates ARK Model documents: into a server if there is an address, else into `provider:name`."""

from __future__ import annotations

from urllib.parse import urlsplit

from teamwright.documents.nodes import Entry, Fields, Node, ProblemReport, Scalar, shown

PROTOCOLS = {"completions", "embeddings"}
OWN_ADDRESSES = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "azure": "AZURE_OPENAI_API_KEY"}
ADDRESS_VARIABLES = {"azure": "AZURE_OPENAI_ENDPOINT", "anthropic": "ANTHROPIC_BASE_URL"}

UNKNOWN = "unknown"
"""The name of a replaced model whose real name only the cluster knows."""


def translate_model(name: str, spec: Fields, report: ProblemReport, *, replaced: bool = False) -> Node | None:
    """Return the model in native terms; report a problem and return None if it has no name and is not replaced."""
    owner = f"model {shown(name)}"
    model = _value(spec, "model", owner, report) or spec.text("model")
    provider = _provider(spec)
    if not model and replaced:
        model = Scalar(UNKNOWN, spec.key_place("model"))
    if not model:
        in_cluster = spec.get("model", "valueFrom") is not None
        message = "the model's name is stored in a cluster ('valueFrom')" if in_cluster else "'model.value' is missing"
        hint = "write its name as model.value, or use another model with  --model"
        report.problem(spec.key_place("model"), f"{owner}: {message}", hint)
        return None
    for key in spec.entries.keys() - {"model", "type", "provider", "config"}:
        report.warning(spec.key_place(key), f"Ignored: {key!r} of {owner} is not supported")
    config = spec.get("config", provider)
    settings = config if isinstance(config, Fields) else Fields({}, spec.place)
    _note_other_providers(spec, provider, owner, report)
    for key in settings.entries.keys() - {"baseUrl", "apiKey"}:
        report.warning(settings.key_place(key), f"Ignored: {key!r} of {owner} is not supported")
    address = _value(settings, "baseUrl", owner, report)
    if provider == "openai" and address and not (_is_own(provider, address) and not settings.text("apiKey", "value")):
        return _server(model, address, settings, owner, report)
    _note_environment(provider, settings, address, owner, report)
    return Scalar(f"{provider}:{model.value}", model.place, model.raw)


def _provider(spec: Fields) -> str:
    """Newer documents say `provider`; in older ones `type` is the provider."""
    written = spec.text("provider")
    kind = spec.text("type")
    if written is None and kind and kind.value not in PROTOCOLS:
        written = kind
    return str(written.value).strip().lower() if written else "openai"


def _value(fields: Fields, key: str, owner: str, report: ProblemReport) -> Scalar | None:
    """The `value` of a setting; warns about one that is stored in a cluster."""
    if fields.get(key, "valueFrom") is not None:
        source = fields.get(key, "valueFrom")
        place = source.place if source else fields.key_place(key)
        report.warning(place, f"Ignored: {key!r} of {owner} is stored in a cluster ('valueFrom')", f"write {key}.value")
    return fields.text(key, "value")


def _is_own(provider: str, address: Scalar) -> bool:
    try:
        return urlsplit(str(address.value)).hostname == OWN_ADDRESSES.get(provider)
    except ValueError:
        return False


def _server(model: Scalar, address: Scalar, settings: Fields, owner: str, report: ProblemReport) -> Fields:
    entries = {"url": Entry("baseUrl", address.place, address), "name": Entry("model", model.place, model)}
    if key := _value(settings, "apiKey", owner, report):
        entries["api_key"] = Entry("apiKey", key.place, key)
    return Fields(entries, settings.place)


def _note_environment(
    provider: str, settings: Fields, address: Scalar | None, owner: str, report: ProblemReport
) -> None:
    """Warn about settings that are read from the environment instead."""
    if address and not _is_own(provider, address):
        hint = f"set {ADDRESS_VARIABLES[provider]}" if provider in ADDRESS_VARIABLES else ""
        report.warning(address.place, f"Ignored: 'baseUrl' of {owner} is not supported for {provider!r}", hint)
    if "apiKey" in settings.entries:
        hint = f"set {KEY_VARIABLES[provider]}" if provider in KEY_VARIABLES else ""
        message = f"Ignored: 'apiKey' of {owner} is read from the environment instead"
        report.warning(settings.key_place("apiKey"), message, hint)


def _note_other_providers(spec: Fields, provider: str, owner: str, report: ProblemReport) -> None:
    config = spec.get("config")
    for key in config.entries if isinstance(config, Fields) else ():
        if key != provider and isinstance(config, Fields):
            report.warning(config.key_place(key), f"Ignored: {owner} is of {provider!r}, so 'config.{key}' is not used")
