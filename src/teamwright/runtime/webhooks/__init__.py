"""Webhooks: the notices they receive, and how each delivery is signed, sent and retried."""
