from collections.abc import Callable

STORY = """
By scan: an import that knows nothing of Tocsin
  2 scans, at customer 1: 1 accepted, 1 known before
  phone of ada: 1
    New customer | Grace Hopper just signed up.

By event: the application adds a customer
  phone of ada: 2
    New customer | Grace Hopper just signed up.
    New customer | Katherine Johnson just signed up.

By event: the application changes its mind
  The transaction rolled back: no customer, no notification.

By both: the scans find the customer of the event
  2 scans, at customer 2: 1 accepted, 3 known before
  phone of ada: 2
    New customer | Grace Hopper just signed up.
    New customer | Katherine Johnson just signed up.
"""


def test_a_customer_is_told_of_once_by_scan_by_event_and_by_both(told: Callable[[str], str]) -> None:
    assert told("crm").endswith(STORY)
