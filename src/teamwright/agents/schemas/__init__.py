"""JSON Schema: checks of declared schemas, and bounded validation of values."""
