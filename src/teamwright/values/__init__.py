"""Pure values that cross a boundary. Nothing here does I/O, reads a clock or imports another layer except `errors`."""
