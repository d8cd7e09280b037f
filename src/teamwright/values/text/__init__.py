"""Text that people and models wrote: scanned, cut, quoted and shown. Linear in its length."""
