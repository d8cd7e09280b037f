"""The engine: runs teams durably. The only package in which work meets the journal."""
