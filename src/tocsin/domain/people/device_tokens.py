"""Which devices can be registered for which provider."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from tocsin.domain.faults import Fault

TokenKind = Literal["token", "fid"]
USUAL_KIND: TokenKind = "token"


class DeviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """What devices of one provider look like.

    `token_fault` returns what is wrong with a token, without quoting it; without it every token is accepted.
    """

    token_fault: Callable[[str], str | None] | None = None
    token_kinds: tuple[TokenKind, ...] = (USUAL_KIND,)


def registration_faults(
    rules: Mapping[str, DeviceRules], provider: str, token: str, token_kind: TokenKind
) -> Iterator[Fault]:
    """List what is wrong with the token of a device for one of the providers in `rules`."""
    of_provider = rules[provider]
    if of_provider.token_fault and (message := of_provider.token_fault(token)):
        yield Fault(field="token", code="invalid", message=message)
    if token_kind not in of_provider.token_kinds:
        takers = [name for name, each in rules.items() if token_kind in each.token_kinds]
        message = f"{provider} takes no {token_kind}; {', '.join(takers) or 'no provider'} does"
        yield Fault(field="token_kind", code="contradiction", message=message)
