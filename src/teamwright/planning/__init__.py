"""Plans before they run: step graphs, schedules and topologies, as pure values and functions."""
