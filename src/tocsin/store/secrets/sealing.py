"""Encryption at rest: device tokens and webhook secrets are sealed with a data key (AES-256-GCM).

A sealed text has the id of its key, so that several keys can be in use, and is bound to its row and column:
moved to another place, it cannot be opened. What was stored without a key is plain text and is read as it is.
"""

import base64
import hashlib
import os
from binascii import Error as Base64Error
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault

PREFIX = "sealed:"
KEY_BYTES = 32

_NONCE_BYTES = 12
_ID_CHARACTERS = 16

Column = Literal["token", "secret"]


class SealedError(Exception):
    """A sealed text cannot be opened with the keys of this process; the message shows nothing of it."""


class DataSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data keys, each 32 bytes in base64: `key` encrypts, `previous_keys` only decrypt.

    Without `key` nothing is encrypted. `key_file` and `previous_key_files` have the same in files.
    """

    key: str | None = None
    key_file: Path | None = None
    previous_keys: list[str] = []
    previous_key_files: list[Path] = []

    def __repr__(self) -> str:
        """Show whether a key is set, not its value."""
        return f"DataSettings(key=<{'set' if self.key or self.key_file else 'not set'}>)"


class DataKeys:
    """Seals texts with the current key and opens what any of the keys has sealed."""

    def __init__(self, current: bytes | None = None, previous: Sequence[bytes] = ()) -> None:
        given = [*previous] if current is None else [*previous, current]
        self._ciphers = {_key_id(key): AESGCM(key) for key in given}
        self.current_id = None if current is None else _key_id(current)
        self.ids = frozenset(self._ciphers)

    def seal(self, text: str, row: UUID, column: Column) -> str:
        """Encrypt a text for its place; without a current key it is returned as it is."""
        if self.current_id is None:
            return text
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._ciphers[self.current_id].encrypt(nonce, text.encode(), _place(row, column))
        return f"{self.sealed_prefix}{base64.urlsafe_b64encode(sealed).decode()}"

    def open(self, stored: str, row: UUID, column: Column) -> str:
        """Decrypt a sealed text, or return a plain one; raise SealedError if no key opens it."""
        if not stored.startswith(PREFIX):
            return stored
        key_id, _, content = stored.removeprefix(PREFIX).partition(":")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            shown = key_id[:_ID_CHARACTERS]
            raise SealedError(f"the {column} is encrypted with the data key {shown}, which is not set here")
        try:
            sealed = base64.urlsafe_b64decode(content)
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _place(row, column)).decode()
        except (InvalidTag, ValueError):
            raise SealedError(f"the encrypted {column} is damaged or from another row") from None

    @property
    def sealed_prefix(self) -> str:
        """What texts begin with that the current key has sealed; without one, what any sealed text does."""
        return PREFIX if self.current_id is None else f"{PREFIX}{self.current_id}:"

    def is_current(self, stored: str) -> bool:
        """Return whether a stored text is as it would be stored now."""
        return stored.startswith(self.sealed_prefix) is (self.current_id is not None)


NO_KEYS = DataKeys()


def data_keys(settings: DataSettings) -> DataKeys:
    """Read the data keys; raise SettingsError if a file cannot be read or a key is none."""
    faults: list[Fault] = []
    current = [_parse("data.key", settings.key, faults)] if settings.key else []
    current += [_read("data.key_file", settings.key_file, faults)] if settings.key_file else []
    previous = [_parse("data.previous_keys", each, faults) for each in settings.previous_keys]
    previous += [_read("data.previous_key_files", each, faults) for each in settings.previous_key_files]
    if faults:
        raise SettingsError("The settings cannot be used:", faults)
    return DataKeys(current[0] if current else None, previous)


def data_settings_faults(settings: DataSettings) -> Iterator[Fault]:
    """Check the data keys that are in the settings themselves."""
    faults: list[Fault] = []
    if settings.key is not None:
        _parse("data.key", settings.key, faults)
    for each in settings.previous_keys:
        _parse("data.previous_keys", each, faults)
    yield from faults
    if settings.key is not None and settings.key_file is not None:
        yield Fault(field="data.key_file", code="contradiction", message="cannot be set beside data.key")


def _parse(field: str, text: str, faults: list[Fault]) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (Base64Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        message = f"must be {KEY_BYTES} bytes in base64, as from: openssl rand -base64 {KEY_BYTES}"
        faults.append(Fault(field=field, code="invalid", message=message))
    return key


def _read(field: str, file: Path, faults: list[Fault]) -> bytes:
    try:
        text = file.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file} cannot be read: {type(error).__name__}"
        faults.append(Fault(field=field, code="unreadable", message=message))
        return b""
    return _parse(field, text, faults)


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"tocsin data key\0" + key).hexdigest()[:_ID_CHARACTERS]


def _place(row: UUID, column: Column) -> bytes:
    return column.encode() + b"\0" + row.bytes
