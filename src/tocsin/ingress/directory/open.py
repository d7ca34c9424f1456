"""Opens the directory that is set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from tocsin.ingress.directory.http import HttpDirectory
from tocsin.ingress.directory.lookup import CachedDirectory, Directory
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.ingress.directory.sql import SqlDirectory


@asynccontextmanager
async def open_directory(settings: DirectorySettings) -> AsyncIterator[Directory | None]:
    """Open the directory of another service; None stands for Tocsin's own, which needs no look-up."""
    opened: Directory
    match settings.kind:
        case "builtin":
            yield None
            return
        case "http":
            opened = HttpDirectory(settings)
        case "sql":
            opened = SqlDirectory(settings)
        case _:
            assert_never(settings.kind)
    cached = CachedDirectory(opened, settings.cache_seconds)
    try:
        yield cached
    finally:
        await cached.aclose()
