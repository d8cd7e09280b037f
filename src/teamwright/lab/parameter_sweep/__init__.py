"""Many evaluations at once: a grid of settings."""
