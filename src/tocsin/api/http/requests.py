"""Requests with the services of the app and the identity of the caller."""

from datetime import datetime
from typing import Any

import msgspec
from litestar import Request

from tocsin.api.auth.holders import Holder
from tocsin.api.auth.tokens import VerifiedToken
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
        return self.token.user_id

    @property
    def token(self) -> VerifiedToken:
        """The person's token."""
        token: VerifiedToken = self.scope["user"]
        return token

    @property
    def holder(self) -> Holder:
        """The holder of the API key, or of a token with roles."""
        holder: Holder = self.scope["user"]
        return holder

    @property
    def actor(self) -> str:
        """The holder as the audit shows it."""
        return self.holder.actor


def checked_user_id(user_id: str) -> str:
    """Return the user id of a path, or raise that nobody can have it."""
    try:
        return msgspec.convert(user_id, UserId)
    except msgspec.ValidationError:
        raise ProblemError(NOT_FOUND, "No user has such an id.") from None
