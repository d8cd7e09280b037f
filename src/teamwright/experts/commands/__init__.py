"""`teamwright ask` and `teamwright experts`; each command imports experts when it is called."""
