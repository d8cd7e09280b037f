"""Collaboration: phases that experts work on in turn, in parts or in competition, and plans that change meanwhile."""
