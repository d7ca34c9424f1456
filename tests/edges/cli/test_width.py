"""Lists fit a terminal of eighty columns, whatever is in them, and are whole where they are piped."""

import re
from datetime import timedelta

import pytest

from tests.edges.cli.conftest import WIDTH, Tocsin
from tests.rows import add_delivery, add_notification
from tocsin.store import audit
from tocsin.store.pool import Pool

TYPE = "monthly_statement_of_a_customer_with_several_accounts"
PRODUCER = "billing-and-invoices-of-the-north-western-region"
CODE = "THIRD_PARTY_AUTHENTICATION_ERROR_OF_A_PROVIDER"
USER = "customer-0123456789-0123456789-0123456789-0123456789-0123456789"
KEY = "statement-" + "0123456789" * 18
_CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
async def notification_id(pool: Pool) -> str:
    """Add what is long to every list, and return an id that people copy from them."""
    now = await pool.fetchval("select now()")
    made = await add_notification(pool, type=TYPE, producer=PRODUCER, idempotency_key=KEY, accepted_at=now)
    await add_delivery(
        pool,
        USER,
        notification_id=made,
        state="dead",
        last_error_code=CODE,
        settled_at=now,
        provider="fcm",
    )
    await pool.execute(
        """
        insert into refused_intents
            (id, refused_at, source, producer, code, type, idempotency_key, faults, content)
        values (gen_random_uuid(), $1, 'api', $2, $3, $4, $5, $6, '{}')
        """,
        now - timedelta(minutes=1),
        PRODUCER,
        CODE.lower(),
        TYPE,
        KEY,
        '[{"field": "payload.customer.accounts[0].statement", "message": "is required"}, '
        f'{{"notification_id": "{made}"}}]',
    )
    async with pool.acquire() as connection:
        await audit.record(
            connection,
            actor=f"key:{PRODUCER} (signed in as somebody with a long name)",
            action="dead_letters.replay",
            subject=f"notification:{made}",
            details={"type": TYPE, "code": CODE, "producer": PRODUCER},
        )
    return str(made)


async def printed(tocsin: Tocsin, command: str) -> tuple[list[str], list[str]]:
    """Return the lines of a command in a terminal, and those that are piped."""
    terminal = await tocsin(command, TTY_COMPATIBLE="1", COLUMNS=str(WIDTH))
    piped = await tocsin(command)
    assert (terminal.code, piped.code) == (0, 0)
    return [_CODES.sub("", line) for line in terminal.out.splitlines()], piped.out.splitlines()


@pytest.mark.parametrize("command", ["list", "refused", "audit"])
async def test_a_list_is_wrapped_in_a_terminal_and_nothing_is_left_out(
    tocsin: Tocsin, notification_id: str, command: str
) -> None:
    lines, piped = await printed(tocsin, command)

    assert max(map(len, lines)) <= WIDTH < max(map(len, piped))
    assert "".join("".join(lines).split()) == "".join("".join(piped).split())
    assert any(notification_id in line for line in lines)


async def test_a_table_of_rates_goes_on_in_the_next_line(tocsin: Tocsin, pool: Pool) -> None:
    for event, count in (("sent", 12_345_678), ("delivered", 12_345_678), ("opened", 9_876_543)):
        await pool.execute(
            "insert into receipt_counts values (date_trunc('day', now()), $1, 'push', $2, $3)",
            TYPE,
            event,
            count,
        )

    lines, piped = await printed(tocsin, "receipts")

    assert max(map(len, lines)) <= WIDTH < max(map(len, piped))
    cells = ["push", "12,345,678", "12,345,678", "(100.0%)", "9,876,543", "(80.0%)", "0"]
    assert lines[1].split()[1:] == piped[1].split()[1:] == cells
    folded = lines[1].split()[0] + "".join(line.strip() for line in lines[2:])
    assert folded == piped[1].split()[0] == TYPE
