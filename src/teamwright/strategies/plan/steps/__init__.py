"""The steps of a running plan: which are ready, how they are worked on, what they gave."""
