from pathlib import Path

from tocsin.domain.errors import TocsinError


class SandboxStartError(TocsinError):
    """The sandbox cannot listen on its address or use its folder."""


class SandboxNotInstalledError(TocsinError, ImportError):
    """The packages of the `sandbox` extra are missing."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"The sandbox needs {package}, which is not installed: pip install 'tocsin[sandbox]'"
        )
        # `python -m tocsin.sandbox` prints the message without a traceback when the error carries this name.
        self.name = "tocsin.sandbox"


def cannot_listen(host: str, port: int, error: OSError) -> SandboxStartError:
    """Build the error for an address that cannot be bound."""
    reason = error.strerror or str(error)
    return SandboxStartError(
        f"the sandbox cannot listen on {host}:{port}: {reason}; choose another port, or 0 for a free one"
    )


def cannot_write(folder: Path, error: OSError) -> SandboxStartError:
    """Build the error for a folder that keys cannot be kept in."""
    reason = error.strerror or str(error)
    return SandboxStartError(f"the sandbox cannot keep its keys in {folder}: {reason}; choose another folder")
