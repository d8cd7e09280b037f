"""Every team as an agent of AG-UI 1.0: its runs as streams of events, and its questions as interrupts."""
