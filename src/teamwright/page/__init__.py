"""What a page shows of a run: events of the journal as page events, and notes about them in words."""
