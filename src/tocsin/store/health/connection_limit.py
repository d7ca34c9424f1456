"""How many connections the server allows."""

from tocsin.store.pool import Connection, Pool

# Postgres 15 has no connections that are reserved for a role.
ALLOWED = """
select current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0)
"""


async def allowed_connections(connection: Connection | Pool) -> int:
    """Return how many connections the server allows, without those it reserves for its operators."""
    allowed: int = await connection.fetchval(ALLOWED)
    return allowed
