"""Webhooks: what they are sent, and how each delivery is signed, sent and retried."""
