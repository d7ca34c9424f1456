"""Parts of pages that are refreshed while somebody looks at them, by Server-Sent Events."""
