"""The gym's own code: a push for a workout at once, a reminder half an hour before a class."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tocsin.client import AsyncTocsin

REMIND_BEFORE = timedelta(minutes=30)


class Workout(msgspec.Struct, frozen=True):
    """A workout."""

    id: str
    name: str


class GymClass(msgspec.Struct, frozen=True):
    """A class that members book."""

    id: str
    name: str
    room: str
    starts_at: datetime


class Gym:
    """Assigns workouts and stores bookings, each with the id of its reminder."""

    def __init__(self, tocsin: AsyncTocsin) -> None:
        self._tocsin = tocsin
        # In an application, a column in its table of bookings.
        self._reminders: dict[str, dict[str, UUID]] = {}

    async def assign_workout(self, workout: Workout, *, coach: str, member: str) -> UUID:
        """Notify a member of a workout now."""
        taken = await self._tocsin.send(
            "workout_assigned",
            users=[member],
            payload={"coach": coach, "workout": workout.name, "workout_id": workout.id},
            idempotency_key=f"workout:{workout.id}:{member}",
        )
        return taken.notification_id

    async def book(self, lesson: GymClass, member: str) -> UUID:
        """Book a class and schedule its reminder; a duplicate booking causes one reminder."""
        taken = await self._tocsin.send(
            "class_reminder",
            users=[member],
            payload={"class_name": lesson.name, "class_id": lesson.id, "room": lesson.room},
            idempotency_key=f"class:{lesson.id}:{member}",
            send_at=lesson.starts_at - REMIND_BEFORE,
        )
        self._reminders.setdefault(lesson.id, {})[member] = taken.notification_id
        return taken.notification_id

    async def move_class(self, lesson: GymClass, starts_at: datetime) -> GymClass:
        """Move a class to another time, with its reminders."""
        for reminder in self._reminders[lesson.id].values():
            await self._tocsin.reschedule(reminder, starts_at - REMIND_BEFORE)
        return msgspec.structs.replace(lesson, starts_at=starts_at)

    async def cancel_class(self, lesson: GymClass) -> None:
        """Cancel a class and its reminders."""
        for reminder in self._reminders.pop(lesson.id).values():
            await self._tocsin.cancel(reminder)
