"""Stand-ins for the push providers, with virtual phones and scripted faults."""

from tocsin.sandbox.faults.rules import Chance, Cut, Hang, Latency, Outage, Pass, Quota, Refuse
from tocsin.sandbox.listener import SandboxStartError
from tocsin.sandbox.server import Sandbox, run_sandbox
from tocsin.sandbox.settings import SandboxSettings

__all__ = [
    "Chance",
    "Cut",
    "Hang",
    "Latency",
    "Outage",
    "Pass",
    "Quota",
    "Refuse",
    "Sandbox",
    "SandboxSettings",
    "SandboxStartError",
    "run_sandbox",
]
