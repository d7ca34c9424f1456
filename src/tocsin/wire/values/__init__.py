"""Checks of values whose form the caller chooses."""
