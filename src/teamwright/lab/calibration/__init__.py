"""Profiles learnt from one's own runs and from published findings."""
