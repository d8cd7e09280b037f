"""Limits and what counts against them: usage, prices, retries, the size of a reply, degradation."""
