"""Looks people up in a directory of somebody else's, each at most once at a time."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.intent import EmailAddress
from tocsin.domain.people.locale import normalize
from tocsin.telemetry import metrics

MOST_CACHED = 50_000


class Person(msgspec.Struct, frozen=True):
    """What a directory knows of a person."""

    email: str | None = None
    preferred_language: str | None = None


People = Mapping[str, Person | None]
"""People by their user ids; None stands for one whom the directory does not have."""


class DirectoryUnavailableError(TocsinError):
    """The directory did not answer, or not as a directory does; nobody else is known to be missing.

    `found` has the answers that came all the same.
    """

    def __init__(self, why: str, found: People | None = None) -> None:
        super().__init__(why)
        self.found: People = found or {}


class Directory(Protocol):
    """Finds people by their ids."""

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError with those that were found."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class CachedDirectory:
    """Keeps answers for a short time; a person that is being looked up is not looked up again."""

    def __init__(self, directory: Directory, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._known: dict[str, tuple[Person | None, float]] = {}
        self._under_way: dict[str, asyncio.Future[People]] = {}

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError with those that were found."""
        now = time.monotonic()
        found = {
            each: self._known[each][0]
            for each in user_ids
            if each in self._known and self._known[each][1] > now
        }
        unknown = [each for each in dict.fromkeys(user_ids) if each not in found]
        waited = {self._under_way[each] for each in unknown if each in self._under_way}
        if asked := [each for each in unknown if each not in self._under_way]:
            asking = asyncio.ensure_future(self._ask(asked))
            self._under_way |= dict.fromkeys(asked, asking)
            waited.add(asking)
        # Somebody who is cancelled must not cancel a look-up that others wait for.
        failure = None
        for answer in await asyncio.gather(*map(asyncio.shield, waited), return_exceptions=True):
            match answer:
                case DirectoryUnavailableError():
                    failure, people = answer, answer.found
                case BaseException():
                    raise answer
                case people:
                    pass
            found |= {each: people[each] for each in unknown if each in people}
        if failure is not None:
            raise DirectoryUnavailableError(str(failure), found)
        return found

    async def _ask(self, user_ids: Collection[str]) -> People:
        try:
            people = await self._directory.find(user_ids)
        except DirectoryUnavailableError as error:
            # The next try asks for the others alone; else a few failures in many would hold all up for ever.
            metrics.lookups.add(("failed",), len(user_ids) - len(error.found))
            self._remember(error.found)
            raise
        finally:
            for each in user_ids:
                self._under_way.pop(each, None)
        self._remember(people)
        return people

    def _remember(self, people: People) -> None:
        missing = sum(person is None for person in people.values())
        metrics.lookups.add(("found",), len(people) - missing)
        metrics.lookups.add(("missing",), missing)
        until = time.monotonic() + self._seconds
        for user_id, person in people.items():
            # One that is missing may be there at the next look: the producer may be ahead of the directory.
            if person is not None:
                self._known.pop(user_id, None)
                self._known[user_id] = person, until
        while len(self._known) > MOST_CACHED:
            del self._known[next(iter(self._known))]

    async def aclose(self) -> None:
        """Cancel look-ups and close connections."""
        if under_way := set(self._under_way.values()):
            for each in under_way:
                each.cancel()
            await asyncio.wait(under_way)
        await self._directory.aclose()


def person_of(email: object, language: object) -> Person:
    """Build a person of what a directory has; what is no mail address or no locale is left out."""
    try:
        address = msgspec.convert(email, EmailAddress)
    except msgspec.ValidationError:
        address = None
    return Person(address, normalize(language) if isinstance(language, str) else None)
