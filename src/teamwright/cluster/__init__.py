"""Many machines: runs are queued in Postgres, and workers on any machine drive them; the extra `cluster`.

The package is optional: its commands import it when they are called, and nothing else does.
"""
