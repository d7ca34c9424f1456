"""Waiting until one connection waits for another."""

from tocsin.store.pool import Connection, Pool


async def waits_for_a_lock(pool: Connection | Pool) -> bool:
    waiting: bool = await pool.fetchval(
        "select count(*) > 0 from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    return waiting
