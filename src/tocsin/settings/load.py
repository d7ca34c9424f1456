"""Loads the settings from `tocsin.toml` and `TOCSIN_*`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.profiles.profile import Profile, merge, read_profile
from tocsin.providers.registry import load_registry
from tocsin.settings.build import build, by_type, override, read_file, setting_name
from tocsin.settings.contradictions import contradictions
from tocsin.settings.tree import Settings, settings_type, stream_providers


def load_settings(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    """Load the settings, or raise SettingsError with everything that is wrong with them."""
    environ = os.environ if environ is None else environ
    chosen = file or (Path(environ["TOCSIN_CONFIG"]) if "TOCSIN_CONFIG" in environ else None)
    type_ = settings_type(load_registry())
    tree, profile = read_file(chosen), read_profile(environ)
    faults: list[Fault] = []
    if profile is not None:
        tree = merge(merge(profile.defaults, tree), profile.given)
        faults += profile.faults
    override(tree, environ, faults)
    if isinstance(emails := tree.get("admin_emails"), dict):
        tree["admin_emails"] = by_type(emails)
    settings: Settings = build(type_, tree, (), faults)
    faulty = _faulty_settings(faults, profile)
    if "redis.url" in faulty:
        # Whoever uses it is not missing an address of its own.
        settings = msgspec.structs.replace(
            settings, redis=msgspec.structs.replace(settings.redis, url="redis://unknown")
        )
    settings = _with_redis(settings)
    faults += [
        fault for fault in contradictions(settings, faulty) if fault.field.partition(" ")[0] not in faulty
    ]
    if faults:
        named = [profile.named(fault) for fault in faults] if profile else faults
        raise SettingsError("The settings cannot be used:", named)
    return settings


def _faulty_settings(faults: Sequence[Fault], profile: Profile | None) -> set[str]:
    """Return the settings whose values cannot be used; their defaults stand in for them."""
    faulty = {fault.field.partition(" ")[0] for fault in faults}
    return faulty | profile.decided_by(faulty) if profile else faulty


def _with_redis(settings: Settings) -> Settings:
    """Set the address of Redis in the sections of providers that name none."""
    filled = {
        section.section: msgspec.structs.replace(section, url=settings.redis.url)
        for section in stream_providers(settings)
        if not section.url
    }
    return msgspec.structs.replace(settings, **filled)


def default_data_dir() -> Path:
    """Return where the embedded database lives: as root, where its own user may enter.

    A container's user may have no home: then SettingsError is raised.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/tocsin")
    if base := os.environ.get("XDG_DATA_HOME"):
        return Path(base) / "tocsin"
    try:
        return Path.home() / ".local" / "share" / "tocsin"
    except RuntimeError:
        fault = Fault(
            field=setting_name(("data_dir",)), code="missing", message="must be set: this user has no home"
        )
        raise SettingsError("The settings cannot be used:", [fault]) from None
