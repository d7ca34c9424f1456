"""Writing into the outbox of one's own database, within one's own transaction.

Each driver has a face of its own, `publish`: in `asyncpg`, `psycopg`, `sqlalchemy` and `django`. All of them
call the function that `tocsin outbox install` has put there, and give the id of the row.
"""

from tocsin.client.outbox.row import Particulars

__all__ = ["Particulars"]
