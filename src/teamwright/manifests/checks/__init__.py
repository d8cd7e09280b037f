"""Checks of what a manifest declares; every problem is reported at once, with its place."""
