"""Packages of functions: a zip with what a handler imports, for Lambda to unpack."""
