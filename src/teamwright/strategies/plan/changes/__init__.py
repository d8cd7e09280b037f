"""How plans and teams change: differences, versions, decisions, members."""
