"""Admission control: budget, rate limits and degradation before a call is sent."""
