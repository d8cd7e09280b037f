"""`teamwright runs`, one file per command."""
