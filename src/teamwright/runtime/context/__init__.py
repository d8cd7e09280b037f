"""The one door to the outside: asks, effects, questions, timers and branches of one run."""
