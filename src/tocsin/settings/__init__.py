"""The settings from `tocsin.toml` and `TOCSIN_*`."""
