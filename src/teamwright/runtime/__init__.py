"""The engine: runs teams durably, and is the only place where work meets the journal."""
