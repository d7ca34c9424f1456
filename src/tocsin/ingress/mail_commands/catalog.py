"""The catalog of the mailer: the mail of each type, without what is decided before a command is written."""

from collections.abc import Iterator

import msgspec

from tocsin.catalog.catalog import Catalog, CompiledType


class MailCatalog(Catalog):
    """The types of a catalog that have texts for mail.

    A type with a digest is not among them: its texts are about several notifications, and a command is one.
    """

    def __init__(self, whole: Catalog) -> None:
        super().__init__(_by_mail(whole), whole.fingerprint, whole.defaults)

    def replace(self, other: Catalog) -> None:
        """Use the mail of another catalog from now on."""
        super().replace(MailCatalog(other))


def _by_mail(whole: Catalog) -> Iterator[CompiledType]:
    names = {
        name
        for name, newest in whole.types.items()
        if whole.locales(newest, "email") and newest.policies.digest is None
    }
    for compiled in whole.compiled.values():
        if compiled.type.name in names:
            yield msgspec.structs.replace(
                compiled,
                type=msgspec.structs.replace(
                    compiled.type,
                    channels=("email",),
                    audiences=None,
                    event=None,
                    policies=msgspec.structs.replace(
                        compiled.type.policies,
                        ordered=False,
                        ordering_group=None,
                        failover=None,
                        throttle=None,
                    ),
                ),
            )
