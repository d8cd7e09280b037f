"""`teamwright lab`, one file per command."""
