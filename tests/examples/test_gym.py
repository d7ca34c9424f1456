import subprocess
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT

from tocsin.catalog.check import check

CATALOG = Path(__file__).parents[2] / "examples" / "gym" / "catalog"

STORY = """
The coach assigns a workout
  phone of ada: 1
    A new workout | Deniz gave you Five by Five.

A class starts in half an hour; Mina wants no reminders
  phone of ada: 2
    A new workout | Deniz gave you Five by Five.
    Yoga starts in 30 minutes | See you in Room 2.
  phone of kerem: 1
    Yoga 30 dakika sonra | Yer: Room 2
  reminder of mina: skipped (opted_out)

A class is cancelled
  reminder of ada: scheduled
  reminder of ada: cancelled

A class is moved from tomorrow to today
  reminder of ada: scheduled
  phone of ada: 3
    A new workout | Deniz gave you Five by Five.
    Yoga starts in 30 minutes | See you in Room 2.
    Spinning starts in 30 minutes | See you in Room 3.

Mina has removed the app from her phone
  workout of mina: gone (DeviceNotRegistered)
  devices of mina: 0
"""


def test_members_are_told_at_their_time_or_not_at_all(told: Callable[[str], str]) -> None:
    assert told("gym").endswith(STORY)


def test_the_catalog_has_no_fault_in_either_language() -> None:
    report = check(CATALOG)

    assert not report.faults
    for kind in report.types:
        assert set(kind.versions[0].locales["push"]) == {"en", "tr"}


def test_an_example_that_is_interrupted_leaves_nothing_running(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    with start("gym") as process:
        assert process.stdout
        heard = iter(process.stdout.readline, "")
        next(line for line in heard if line.startswith("The coach"))
        process.send_signal(SIGINT)
        assert process.wait(60) == 1
        assert process.stderr
        assert process.stderr.read() == "Stopped.\n"
