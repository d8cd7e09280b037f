"""Followers of runs: their events and deltas, and their structured output while it grows."""
