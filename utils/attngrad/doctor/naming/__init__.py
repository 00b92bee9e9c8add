"""What an implementation computes, and which known mistakes explain all of its answers."""
