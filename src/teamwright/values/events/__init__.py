"""Events: what a run records."""
