"""The pages of the dashboard, in the order of the navigation."""

from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.pages import dead_letters, notifications, now, people

PAGES: tuple[Page, ...] = (now.page, notifications.page, dead_letters.page, people.page)
