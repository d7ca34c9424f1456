"""Pages and pictures that are drawn from the code, so that they cannot disagree with it."""
