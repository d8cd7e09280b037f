"""The SQLite journal. Only this package knows SQLite."""
