"""What a run shares: named values with versions, and artifacts stored once by their content."""
