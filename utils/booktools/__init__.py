"""The tools that make the book: notebooks from text, their outputs, the site and its tests."""
