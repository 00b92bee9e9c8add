"""Giving cases to an implementation, in this process or in one of its own."""
