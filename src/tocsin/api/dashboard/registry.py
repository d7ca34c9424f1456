"""The pages of the dashboard, in the order of the navigation."""

from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.pages import (
    audit,
    dead_letters,
    keys,
    notifications,
    now,
    people,
    producers,
    providers,
    scheduled,
    sessions,
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
    producers.page,
    suppressions.page,
    keys.page,
    sessions.page,
    audit.page,
)
