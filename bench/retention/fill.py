"""The statement that fills a database with settled notifications."""

# UUIDv7 of the time at which each was accepted, spread evenly over the days.
FILL = """
with made as materialized (
    select
        number,
        at,
        (
            lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '7000'
            || '8' || lpad(to_hex(number), 15, '0')
        )::uuid as id,
        (
            lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '7001'
            || '8' || lpad(to_hex(number), 15, '0')
        )::uuid as delivery_id
    from generate_series($1::bigint, $1 + $2::bigint - 1) as number,
        lateral (select $4::timestamptz + number * ($5::interval / $3::float8) as at) as times
),
accepted as (
    insert into notifications (
        id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
    )
    select
        id, 'bench', 'order-shipped-' || number, decode(md5(number::text), 'hex'), 'new_customer', 2,
        jsonb_build_object('users', jsonb_build_array('user-' || number % 100000)),
        jsonb_build_object('customer_name', 'Customer ' || number, 'order', md5(number::text)), at
    from made
),
delivered as (
    insert into deliveries (
        id, notification_id, channel, lane, user_id, state, attempts, due_at, provider, provider_message_id,
        device_id, created_at, settled_at
    )
    select
        delivery_id, id, 'push', 'fcm', 'user-' || number % 100000, 'sent', 1, at, 'fcm',
        'projects/bench/messages/' || md5(number::text), delivery_id, at, at + interval '1 second'
    from made
)
insert into attempts (delivery_id, outcome, code, detail, at)
select delivery_id, 'retry', 'UNAVAILABLE', 'The service is currently unavailable.', at
from made
where number % 20 = 0
"""
