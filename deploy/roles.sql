-- The rights of workers and of those who submit runs. The owner of the database makes the tables first, and applies
-- this file after that and after each upgrade:
--   TEAMWRIGHT_JOURNAL=postgresql://owner@… teamwright cluster status
--   psql --file deploy/roles.sql "$DATABASE"
-- Then each machine or person gets a user of their own:
--   CREATE ROLE ada LOGIN PASSWORD '…' IN ROLE teamwright_worker;
DO $$ BEGIN
    CREATE ROLE teamwright_worker NOLOGIN;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
DO $$ BEGIN
    CREATE ROLE teamwright_submitter NOLOGIN;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
GRANT USAGE ON SCHEMA teamwright, teamwright_queue TO teamwright_worker, teamwright_submitter;

-- Workers, `run` and `serve` read and write rows. They can't change or drop a table.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA teamwright, teamwright_queue TO teamwright_worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA teamwright, teamwright_queue TO teamwright_worker;

-- Submitters add runs, answer them, cancel those that are driven, and read. They can't change or delete what is
-- recorded, nor a budget.
GRANT SELECT ON ALL TABLES IN SCHEMA teamwright, teamwright_queue TO teamwright_submitter;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA teamwright TO teamwright_submitter;
GRANT INSERT ON teamwright.runs, teamwright.events, teamwright.bodies, teamwright.body_uses, teamwright.inbox,
    teamwright.queued_runs TO teamwright_submitter;
GRANT INSERT ON teamwright_queue.workflow_status, teamwright_queue.workflow_input, teamwright_queue.queues
    TO teamwright_submitter;
GRANT UPDATE (creator_xid) ON teamwright_queue.workflow_status TO teamwright_submitter;
