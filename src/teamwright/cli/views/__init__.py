"""Views of a run as it happens."""
