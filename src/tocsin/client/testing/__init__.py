"""For the tests of applications: a recording client, and a real server that starts by itself."""

from tocsin.client.testing.fake import FakeTocsin
from tocsin.client.testing.recording import Recorded
from tocsin.client.testing.server import Phone, RunningTocsin

__all__ = ["FakeTocsin", "Phone", "Recorded", "RunningTocsin"]
