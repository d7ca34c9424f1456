"""Requests with the services of the app and the identity of the caller."""

from datetime import datetime
from typing import Any

import msgspec
from litestar import Request

from tocsin.api.auth.api_keys import KeyHolder
from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.services import Services
from tocsin.catalog.catalog import Catalog
from tocsin.domain.intent import UserId
from tocsin.store.pool import Pool


class ApiRequest(Request[Any, Any, Any]):
    """A request as handlers see it; `person` or `holder` is set by the access check of its route."""

    @property
    def services(self) -> Services:
        """The services of the app."""
        services: Services = self.app.state.services
        return services

    @property
    def pool(self) -> Pool:
        """The database pool."""
        return self.services.pool

    @property
    def catalog(self) -> Catalog | None:
        """The catalog, if the app has one."""
        catalog: Catalog | None = self.app.state.catalog
        return catalog

    def now(self) -> datetime:
        """Return the current time."""
        return self.services.clock()

    @property
    def person(self) -> str:
        """The user id of the person's token."""
        user_id: str = self.scope["user"]
        return user_id

    @property
    def holder(self) -> KeyHolder:
        """The holder of the API key."""
        holder: KeyHolder = self.scope["user"]
        return holder

    @property
    def actor(self) -> str:
        """The holder of the API key as the audit shows it."""
        return f"{self.holder.producer} (key {self.holder.key_id})"


def checked_user_id(user_id: str) -> str:
    """Return the user id of a path, or raise that nobody can have it."""
    try:
        return msgspec.convert(user_id, UserId)
    except msgspec.ValidationError:
        raise ProblemError(NOT_FOUND, "No user has such an id.") from None
