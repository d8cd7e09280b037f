"""Pure values: what crosses a boundary. Nothing here does I/O, reads a clock or imports another layer but `errors`."""
