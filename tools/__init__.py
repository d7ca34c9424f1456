"""What the repository needs to keep itself in order; no part of the wheel."""
