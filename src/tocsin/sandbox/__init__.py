"""Stand-ins for the providers, with virtual devices and scripted faults; installed by `tocsin[sandbox]`."""

from tocsin.sandbox.errors import SandboxNotInstalledError, SandboxStartError

try:
    from tocsin.sandbox.faults.rules import Chance, Cut, Hang, Latency, Outage, Pass, Quota, Refuse
    from tocsin.sandbox.server import Sandbox
    from tocsin.sandbox.settings import SandboxSettings
except ModuleNotFoundError as error:
    if not error.name or error.name.partition(".")[0] == "tocsin":
        raise
    raise SandboxNotInstalledError(error.name) from error

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
    "SandboxNotInstalledError",
    "SandboxSettings",
    "SandboxStartError",
]
