"""Tables that the processes of a cluster share beside the runs: paces of models, budgets, schedules and workers."""
