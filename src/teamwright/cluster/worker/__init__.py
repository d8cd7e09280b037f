"""A worker process: drives queued runs, takes over those of dead workers, and drains when it is stopped."""
