"""Measures Teamwright beside other frameworks, in one session on one machine: `python -m bench`, or `make bench`.

It compares what the frameworks add to a turn: every agent answers at once, so no model and no network is in it.
"""
