"""Branches as runs of their own: what a child run receives, how it answers, and who drives it."""
