"""The soak: a whole installation under load while its parts are killed, cut off and given wrong clocks.

`make soak`, or `python -m tests.soak --seconds 300 --seed 7`. It is no part of `make test`.
"""
