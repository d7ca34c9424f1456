"""Commands that show what waits, what leaves when, and what one person got."""
