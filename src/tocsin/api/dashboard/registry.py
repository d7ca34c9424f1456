"""The pages of the dashboard, in the order of the navigation."""

from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.pages import now

PAGES: tuple[Page, ...] = (now.page,)
