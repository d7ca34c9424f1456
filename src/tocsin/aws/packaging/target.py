"""What a package is made for: a processor and a version of Python, as Lambda has them."""

import platform
import re
import sys
from collections.abc import Iterable
from enum import StrEnum

import msgspec

_MANYLINUX = re.compile(r"manylinux(?:_2_(?P<glibc>\d+)|(?P<year>1|2010|2014))_(?P<machine>\w+)")
_GLIBC_OF_YEAR = {"1": 5, "2010": 12, "2014": 17}
# From Python 3.12 on, Lambda's runtimes are made of Amazon Linux 2023.
_GLIBC_2, _GLIBC_2023 = 26, 34
_FIRST_ON_2023 = (3, 12)


class Platform(StrEnum):
    """The processor that a function runs on."""

    X86_64 = "manylinux2014_x86_64"
    ARM64 = "manylinux2014_aarch64"

    @property
    def machine(self) -> str:
        """The processor as wheels have it."""
        return self.removeprefix("manylinux2014_")


class Target(msgspec.Struct, frozen=True):
    """A platform and a version of Python."""

    platform: Platform
    python: tuple[int, int]

    def __str__(self) -> str:
        """Show what a runtime is called by."""
        return f"Python {self.python[0]}.{self.python[1]} on {self.platform.machine}"

    @property
    def is_this_machine(self) -> bool:
        """Whether packages that are installed here can run there."""
        return (
            sys.platform == "linux"
            and platform.machine() == self.platform.machine
            and sys.version_info[:2] == self.python
        )

    @property
    def glibc(self) -> int:
        """The minor version of the C library of the runtime."""
        return _GLIBC_2 if self.python < _FIRST_ON_2023 else _GLIBC_2023

    @property
    def wheel_platforms(self) -> list[str]:
        """The platforms of wheels that run there, as pip takes them."""
        newer = [f"manylinux_2_{minor}_{self.platform.machine}" for minor in range(17, self.glibc + 1)]
        return [self.platform.value, *newer]

    def runs(self, tags: Iterable[str]) -> bool:
        """Return whether a wheel with one of these tags runs there; its Python is not compared."""
        return any(self._runs(tag.rpartition("-")[2]) for tag in tags)

    def _runs(self, wheel_platform: str) -> bool:
        if wheel_platform == "any":
            return True
        match = _MANYLINUX.fullmatch(wheel_platform)
        if match is None or match["machine"] != self.platform.machine:
            return False
        minor = int(match["glibc"]) if match["glibc"] else _GLIBC_OF_YEAR[match["year"]]
        return minor <= self.glibc


def this_machine() -> Target:
    """Return the target that is most like this machine."""
    is_arm = platform.machine() in {"aarch64", "arm64"}
    return Target(Platform.ARM64 if is_arm else Platform.X86_64, (sys.version_info[0], sys.version_info[1]))
