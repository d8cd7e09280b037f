"""Strategies in which an orchestrator decides who works on what."""
