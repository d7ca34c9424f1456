"""An event as the gateway reads it from its stream."""

from collections.abc import Mapping

from tocsin.domain.delivery.message import HandOff, Message
from tocsin.providers.gateway_stream.tables import Tables
from tocsin.providers.redis_streams.provider import EncodingError, trace_fields


def render(message: Message, hand_off: HandOff, tables: Tables) -> Mapping[bytes, bytes]:
    """Build the fields of an entry; the body is the FlatBuffers table of the type.

    It names no session: the gateway passes the event on to every session of the person.
    """
    if hand_off.table is None:
        raise EncodingError(f"the catalog declares no event for {message.type}")
    return {
        b"user_id": message.target.encode(),
        b"event_type": message.type.encode(),
        b"event_id": hand_off.event_id.encode(),
        b"payload_bytes": tables.encode(hand_off.table, hand_off.fields, hand_off.payload),
        **trace_fields(hand_off),
    }
