"""Writing into the outbox of the application's own database, within its own transaction.

Each driver has its own `publish`: in `asyncpg`, `psycopg`, `sqlalchemy` and `django`. All of them call the
function that `tocsin outbox install` created, and return the id of the row.
"""

from tocsin.client.outbox.row import Particulars

__all__ = ["Particulars"]
