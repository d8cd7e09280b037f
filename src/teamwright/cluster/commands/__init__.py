"""`teamwright worker`, `submit` and `cluster`; each command imports the cluster when it is called."""
