"""`python -m examples.gym`: a workout at once, a reminder at its time, or not at all."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from examples.demonstration import heading, run, say, until
from examples.gym.gym import REMIND_BEFORE, Gym, GymClass, Workout
from examples.playground import Playground, playground
from tocsin.client import AsyncTocsin

HERE = Path(__file__).parent
TOMORROW = timedelta(days=1)


async def example() -> None:
    """Start everything and register a phone for three members."""
    async with playground(HERE / "tocsin.toml") as town:
        await town.start_tocsin()
        await tell(town, await town.client("gym"))


async def tell(town: Playground, tocsin: AsyncTocsin) -> None:
    """Show each case."""
    gym = Gym(tocsin)
    ada = await town.phone(tocsin, "ada", locale="en", provider="expo")
    kerem = await town.phone(tocsin, "kerem", locale="tr", provider="expo")
    mina = await town.phone(tocsin, "mina", locale="en", provider="expo")

    heading("The coach assigns a workout")
    await gym.assign_workout(Workout("five-by-five", "Five by Five"), coach="Deniz", member="ada")
    await ada.show(1)

    heading("A class starts in half an hour; Mina wants no reminders")
    await town.app(tocsin, "mina").change_preferences({"class_reminders": {"push": False}})
    yoga = GymClass("yoga", "Yoga", "Room 2", soon())
    reminders = {member: await gym.book(yoga, member) for member in ("ada", "kerem", "mina")}
    await ada.show(2)
    await kerem.show(1)
    await show_state(tocsin, "reminder of mina", reminders["mina"], "skipped")

    heading("A class is cancelled")
    boxing = GymClass("boxing", "Boxing", "Room 1", soon() + TOMORROW)
    reminder = await gym.book(boxing, "ada")
    await show_state(tocsin, "reminder of ada", reminder, "scheduled")
    await gym.cancel_class(boxing)
    await show_state(tocsin, "reminder of ada", reminder, "cancelled")

    heading("A class is moved from tomorrow to today")
    spinning = GymClass("spinning", "Spinning", "Room 3", soon() + TOMORROW)
    reminder = await gym.book(spinning, "ada")
    await show_state(tocsin, "reminder of ada", reminder, "scheduled")
    await gym.move_class(spinning, soon())
    await ada.show(3)

    heading("Mina has removed the app from her phone")
    town.sandbox.phones.unregister(mina.address)
    assigned = await gym.assign_workout(Workout("stretching", "Stretching"), coach="Deniz", member="mina")
    await show_state(tocsin, "workout of mina", assigned, "gone")
    say(f"  devices of mina: {len(await town.app(tocsin, 'mina').devices())}")


def soon() -> datetime:
    """Return a start time whose reminder is due in a second."""
    return datetime.now(UTC) + REMIND_BEFORE + timedelta(seconds=1)


async def show_state(tocsin: AsyncTocsin, name: str, notification_id: UUID, state: str) -> None:
    """Wait until a notification has a state, and print it with its reason."""

    async def stands() -> bool:
        return all(each.state == state for each in (await tocsin.show(notification_id)).deliveries)

    await until(stands, f"the {name} to be {state}")
    for delivery in (await tocsin.show(notification_id)).deliveries:
        reason = delivery.reason or delivery.last_error_code
        say(f"  {name}: {delivery.state}" + (f" ({reason})" if reason else ""))


if __name__ == "__main__":
    run(example)
