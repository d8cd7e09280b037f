"""The journal in a Postgres database, which the processes of several machines share."""
