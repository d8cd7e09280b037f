"""The queue of runs: DBOS, with one workflow for each run and no steps. Nothing else imports DBOS."""
