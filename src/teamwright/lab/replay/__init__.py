"""What-if: a recorded run again on virtual time, with other prices, limits or widths. No model or tool is called."""
