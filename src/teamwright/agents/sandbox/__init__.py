"""Sandboxes: how commands of members are kept in their folders."""
