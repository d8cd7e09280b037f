"""The events that a run records."""
