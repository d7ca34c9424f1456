"""Recipient profiles: what is known of people at this moment."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from tocsin.domain.people.profile import RecipientProfile
from tocsin.store.deliveries.claim import read_profile
from tocsin.store.pool import Connection

PROFILES = """
select
    given.user_id,
    users.email as mailbox,
    (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = any(suppression_keys(users.email))
        limit 1
    ) is not null as suppressed,
    null as device_timezone,
    users.timezone,
    users.gmt_offset_seconds,
    users.allowed_window,
    users.locale,
    users.attributes::text as attributes,
    preferences.choices::text as choices,
    devices.id as destination_id,
    devices.token as destination_token,
    devices.provider as destination_provider,
    devices.platform as destination_platform,
    devices.locale as destination_locale,
    devices.timezone as destination_timezone,
    devices.last_seen_at as destination_last_seen_at,
    devices.token_kind as destination_token_kind,
    devices.secret as destination_secret,
    devices.sender_key as destination_sender_key
from unnest($1::text[]) as given (user_id)
left join users on users.user_id = given.user_id
left join preferences on preferences.user_id = given.user_id
left join devices
    on devices.user_id = given.user_id and devices.retired_at is null and devices.push_enabled
order by given.user_id, devices.last_seen_at desc
"""

_user_id = itemgetter("user_id")


async def profiles(connection: Connection, user_ids: Sequence[str]) -> dict[str, RecipientProfile]:
    """Read the profiles of people with all their devices."""
    rows = await connection.fetch(PROFILES, user_ids)
    return {user_id: read_profile(list(same)) for user_id, same in groupby(rows, key=_user_id)}
