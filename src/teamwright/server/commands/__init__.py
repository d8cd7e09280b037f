"""`teamwright serve` and the tokens of the server; each command imports the server when it is called."""
