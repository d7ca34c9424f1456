"""The only package that knows every layer: builds the processes of Tocsin from its settings."""
