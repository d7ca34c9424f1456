"""Uploads segments from a stream of lines, and deletes those that nothing reads any more."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from uuid import UUID

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.people.organisations import NOT_YOURS
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.time_slice import TimeSlice
from tocsin.store.broadcasts import segments
from tocsin.store.broadcasts.segments import SegmentRow
from tocsin.store.people.organisations import outsiders
from tocsin.store.pool import Pool
from tocsin.wire.segments import SegmentMember

LONGEST_LINE = 1_024
MOST_FAULTS = 50
BATCH = 2_000
SWEEP_SECONDS = 60.0

_LINE_FORM = 'must be an object such as {"user_id": "42"}'


class SegmentFaultsError(TocsinError):
    """Lines of an upload have faults; the segment is as it was before."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} lines have faults, the first: {faults[0].field} {faults[0].message}")
        self.faults = faults


class _Line(msgspec.Struct, frozen=True):
    number: int
    user_id: str


_decoder = msgspec.json.Decoder(SegmentMember)


class Uploader:
    """Stores the people of a stream of lines as a segment, in place of the one before.

    With an `org_id` it is a segment of that organisation, and has people of it alone. `progress` is called
    with the number of people so far.
    """

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        org_id: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._org_id = org_id
        self._progress = progress
        self._faults: list[Fault] = []

    async def upload(self, name: str, parts: AsyncIterable[bytes]) -> SegmentRow:
        """Store a segment and return it; raise the faults of its lines once all of them were read."""
        upload = await segments.begin(self._pool, name, self._org_id, self._clock())
        try:
            async for batch in self._batches(parts):
                await self._add(upload, batch)
            self._raise_faults()
            async with self._pool.acquire() as connection, connection.transaction():
                return await segments.replace(connection, upload, name, self._org_id, self._clock())
        except BaseException:
            await segments.abandon(self._pool, upload, self._clock())
            raise

    async def _batches(self, parts: AsyncIterable[bytes]) -> AsyncIterator[list[_Line]]:
        """Yield the members of the lines; faults are recorded, and nothing is parsed after too many."""
        batch: list[_Line] = []
        number, slice_ = 0, TimeSlice()
        async for line in _lines(parts):
            number += 1
            if len(self._faults) >= MOST_FAULTS or not line.strip():
                continue
            await slice_.pause()
            try:
                batch.append(_Line(number, str(_decoder.decode(_checked(line)).user_id)))
            except (ValueError, RecursionError) as error:
                # A decoding error is a ValueError too; that of a text repeats none of it.
                self._add_fault(number, "invalid", f"{_LINE_FORM}: {error}"[:200])
            if len(batch) >= BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _add(self, upload: UUID, batch: Sequence[_Line]) -> None:
        user_ids = [line.user_id for line in batch]
        async with self._pool.acquire() as connection:
            if self._org_id is not None:
                outside = await outsiders(connection, [self._org_id] * len(batch), user_ids)
                for position in sorted(outside):
                    self._add_fault(batch[position].number, NOT_YOURS, "is not of the organisation")
            if not self._faults:
                members = await segments.add(connection, upload, user_ids, self._clock())
                if self._progress is not None:
                    self._progress(members)

    def _raise_faults(self) -> None:
        if self._faults:
            raise SegmentFaultsError(self._faults[:MOST_FAULTS])

    def _add_fault(self, number: int, code: str, message: str) -> None:
        self._faults.append(Fault(field=f"line {number}", code=code, message=message))


def _checked(line: bytes) -> bytes:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE:,} bytes")
    return line


async def _lines(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Split a stream into lines; one that is too long is cut off behind the longest, and the rest skipped."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line
        # Kept one byte longer than allowed, so that it is a fault when it ends.
        rest = rest[: LONGEST_LINE + 1]
    if rest.strip():
        yield rest


class SegmentSweep:
    """Deletes what was uploaded and then replaced, deleted or abandoned."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def run(self) -> None:
        """Sweep until cancelled."""
        await repeat(self.sweep, name="segment sweep", every=SWEEP_SECONDS)

    async def sweep(self) -> bool:
        """Delete a batch; return whether there may be more."""
        async with self._pool.acquire() as connection, connection.transaction():
            return await segments.sweep(connection, self._clock())
