"""The keys of Web Push in a running process, and their rotation.

A browser's subscription can only be sent to with the key that it was made with. A rotation therefore adds a
key: pages get the newest one, and the older ones stay for the subscriptions that were made with them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from tocsin.engine.duty import repeat
from tocsin.providers.webpush.crypto import key_id_of, new_private_key_pem, public_key_of
from tocsin.providers.webpush.settings import SECRET_NAME
from tocsin.store import audit
from tocsin.store.pool import Connection, Pool
from tocsin.store.secrets import kept_secrets

KEY_IN_FILE = (
    "names the key of Web Push: put a new key into the file, set TOCSIN_WEBPUSH__PREVIOUS_KEY_FILES to a "
    "file with the old one, and restart"
)
READ_SECONDS = 30.0
ACTIVE_AFTER = timedelta(minutes=2)
"""When pages get a new key: every worker has read it by then."""


class RotatedWebPushKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key of Web Push, which pages get from `active_at` on."""

    key_id: str
    public_key: str
    active_at: datetime
    old_discarded: bool


class WebPushKeys:
    """The keys that a process uses: those of the files that the settings name, or those that are stored.

    Stored ones are read again and again, so that a rotation needs no restart. `public_key` is the one that
    pages subscribe with; `changed` is called with the private keys, newest first.
    """

    def __init__(
        self,
        pool: Pool,
        private_keys: Sequence[str],
        *,
        are_stored: bool = True,
        changed: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._pool = pool
        self._changed = changed
        self._private_keys: tuple[str, ...] = ()
        self.are_stored = are_stored
        self._use(private_keys, private_keys[0])

    async def run(self) -> None:
        """Read the stored keys until cancelled."""
        await repeat(self.read, name="webpush keys", every=READ_SECONDS)

    async def read(self) -> None:
        """Read the stored keys once; those in files do not change."""
        if self.are_stored:
            await self.load(self._pool)

    async def load(self, connection: Connection | Pool) -> None:
        """Read the stored keys over a connection."""
        versions = await kept_secrets.versions(connection, SECRET_NAME, ACTIVE_AFTER)
        if versions:
            current = next((each for each in versions if each.is_active), versions[-1])
            self._use([each.value for each in versions], current.value)

    def _use(self, private_keys: Sequence[str], current: str) -> None:
        self.public_key = public_key_of(current)
        self.key_id = key_id_of(self.public_key)
        if tuple(private_keys) != self._private_keys:
            self._private_keys = tuple(private_keys)
            if self._changed:
                self._changed(private_keys)


async def rotate_webpush_key(
    connection: Connection, *, discard_old: bool, actor: str
) -> RotatedWebPushKey | None:
    """Generate and store a new key, beside the old ones or instead of them; return None if none is stored."""
    private_key = new_private_key_pem()
    public_key = public_key_of(private_key)
    key_id = key_id_of(public_key)
    async with connection.transaction():
        if discard_old:
            stored_at = await kept_secrets.replace_all(connection, SECRET_NAME, private_key)
        else:
            stored_at = await kept_secrets.add_version(connection, SECRET_NAME, key_id, private_key)
        if stored_at is None:
            return None
        details = {"key_id": key_id, "old_discarded": discard_old}
        await audit.record(
            connection, actor=actor, action="webpush_key.rotate", subject="provider:webpush", details=details
        )
    return RotatedWebPushKey(
        key_id=key_id,
        public_key=public_key,
        active_at=stored_at if discard_old else stored_at + ACTIVE_AFTER,
        old_discarded=discard_old,
    )
