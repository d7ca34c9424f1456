"""The items of an inbox as people's apps get them."""

import msgspec

from tocsin.store.inbox.items import ItemRow
from tocsin.wire.person.inbox import InboxItem

_data = msgspec.json.Decoder(dict[str, str])


def shown_item(row: ItemRow) -> InboxItem:
    """Return an item without whose it is."""
    fields = {name: getattr(row, name) for name in InboxItem.__struct_fields__ if name != "data"}
    return InboxItem(**fields, data=_data.decode(row.data))
