"""A run: its session, what it keeps, and who plays it."""
