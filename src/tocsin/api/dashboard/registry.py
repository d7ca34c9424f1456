"""The pages of the dashboard, in the order of the navigation."""

from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.pages import (
    audit,
    dead_letters,
    keys,
    notifications,
    now,
    people,
    providers,
    scheduled,
    suppressions,
    types,
)

PAGES: tuple[Page, ...] = (
    now.page,
    notifications.page,
    dead_letters.page,
    people.page,
    providers.page,
    types.page,
    scheduled.page,
    suppressions.page,
    keys.page,
    audit.page,
)
