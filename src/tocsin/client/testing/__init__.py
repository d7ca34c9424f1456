"""For the tests of applications: a recording stand-in for Tocsin, and a real one that starts by itself."""

from tocsin.client.testing.fake import FakeTocsin
from tocsin.client.testing.notifications import Recorded
from tocsin.client.testing.server import Phone, RunningTocsin

__all__ = ["FakeTocsin", "Phone", "Recorded", "RunningTocsin"]
