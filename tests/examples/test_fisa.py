from collections.abc import Callable

STORY = """
1. Ada registers a phone with Android, Bo one with iOS
  phone of ada: endpoint/GCM/fisa-android/…
  phone of bo: endpoint/APNS/fisa-ios/…

2. Somebody comments on a work item that both watch
  phone of ada: 1
    New comment on WI-7 | Looks good to me
  phone of bo: 1
    New comment on WI-7 | Looks good to me
  Tapping it opens fisa://work-item/WI-7?tab=comments

3. Bo's phone gets another token; Ada removes the app
  endpoint of bo: the same
  phone of bo: 2
    New comment on WI-7 | Looks good to me
    New comment on WI-7 | Shipped
  devices of ada: 0, retired because its endpoint is disabled

4. 10 comments in a row
  phone of bo: 10 more, in order: Comment 1 of 10 … Comment 10 of 10

5. The archive has a copy of everything that was published
  DuckDB finds 14 messages about 12 events
"""


def test_the_smoke_plan_holds_from_the_outbox_to_the_phones(told: Callable[[str], str]) -> None:
    assert told("fisa").endswith(STORY)
