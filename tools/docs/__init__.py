"""Pages and pictures generated from the code, so that they cannot disagree with it."""
