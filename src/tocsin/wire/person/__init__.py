"""What apps of people and functions that reach their phones send and get."""
