"""A run's access to the outside world: asks, effects, questions, timers and branches."""
