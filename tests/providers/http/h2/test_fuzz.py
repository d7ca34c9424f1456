"""A short fuzz of the parser; `make fuzz` sends a million frames."""

import pytest

from tests.providers.http.h2.fuzz import Fuzzer
from tocsin.http2 import keep_alive


@pytest.mark.parametrize("seed", range(5))
async def test_random_frames_raise_nothing_that_is_not_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 10_000)
    fuzzer = Fuzzer(seed)

    await fuzzer.run(4_000)

    assert fuzzer.ends["answered"] > 100
    assert len(fuzzer.ends) >= 8, fuzzer.ends
