"""What all commands share: output, options, errors, interrupts, and opening the journal and teams."""
