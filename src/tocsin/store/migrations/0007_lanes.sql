-- Lanes, ordering groups and digests as rows of their own
-- depends: 0006_progress

-- migrate: apply

-- The queue that takes a waiting delivery: a provider's name, or `fanout` where it is not known yet. Rows
-- from before this migration start in `fanout`, which moves each of them when it is due.
alter table deliveries
    add column lane text not null default 'fanout',
    add column accept_order bigint;

create sequence accept_order;

-- A digest: its window, its state, and what all of its members have in common. The members are deliveries
-- with its id; so are the deliveries that carry it, which belong to no notification.
create table digests (
    id uuid primary key,
    key text not null,
    type text not null,
    version integer not null,
    state text not null default 'open',
    opened_at timestamptz not null,
    constraint digests_known_state check (state in ('open', 'closed', 'ended'))
) with (fillfactor = 75);

create unique index digests_one_open on digests (key) where state = 'open';

alter table deliveries
    -- squawk-ignore ban-drop-not-null
    alter column notification_id drop not null,
    -- squawk-ignore constraint-missing-not-valid
    add constraint deliveries_of_notification_or_digest
    check (notification_id is not null or digest_id is not null) not valid;

-- What was held for a provider that was down, paused or busy waits in its lane instead.
update deliveries
set held_by = null, due_at = now()
where state in ('scheduled', 'pending', 'retrying')
    and (held_by like 'busy:%' or held_by like 'circuit:%' or held_by like 'provider:%');

-- Order was kept per person and channel, from now on per ordering group, which is the type by default;
-- collapse keys count per type too. All deliveries of a notification have the same place in the order.
update deliveries
set ordering_key = deliveries.ordering_key || ':' || notifications.type
from notifications
where notifications.id = deliveries.notification_id
    and deliveries.ordering_key is not null
    and deliveries.state in ('scheduled', 'pending', 'retrying');

update deliveries
set collapse_key = deliveries.collapse_key || ':' || notifications.type
from notifications
where notifications.id = deliveries.notification_id
    and deliveries.collapse_key is not null
    and deliveries.state in ('scheduled', 'pending', 'retrying');

update deliveries
set accept_order = numbered.position
from (
    select notification_id, nextval('accept_order') as position
    from (
        select distinct notification_id
        from deliveries
        where (ordering_key is not null or collapse_key is not null)
            and state in ('scheduled', 'pending', 'retrying')
        order by notification_id
    ) as in_order
) as numbered
where deliveries.notification_id = numbered.notification_id
    and (deliveries.ordering_key is not null or deliveries.collapse_key is not null)
    and deliveries.state in ('scheduled', 'pending', 'retrying');

-- One that has its device already is sent to it by itself; only what was not fanned out can join a digest.
update deliveries
set digest_key = null,
    digest_id = null,
    held_by = nullif(held_by, 'digest'),
    due_at = case when held_by = 'digest' then now() else due_at end
where digest_key is not null
    and device_id is not null
    and state in ('scheduled', 'pending', 'retrying');

-- Deliveries that waited for a common digest become its members.
insert into digests (id, key, type, version, opened_at)
select distinct on (deliveries.digest_key)
    gen_random_uuid(), deliveries.digest_key, notifications.type, notifications.version, deliveries.created_at
from deliveries
join notifications on notifications.id = deliveries.notification_id
where deliveries.digest_key is not null and deliveries.state in ('scheduled', 'pending', 'retrying')
order by deliveries.digest_key, deliveries.id;

insert into deliveries (id, digest_id, channel, user_id, address, state, due_at, created_at)
select distinct on (digests.id)
    gen_random_uuid(), digests.id, deliveries.channel, deliveries.user_id, deliveries.address, 'scheduled',
    case when deliveries.due_at = 'infinity' then now() else deliveries.due_at end, now()
from digests
join deliveries
    on deliveries.digest_key = digests.key and deliveries.state in ('scheduled', 'pending', 'retrying')
order by digests.id, deliveries.due_at, deliveries.id;

update deliveries
set digest_id = digests.id,
    held_by = 'digest',
    due_at = 'infinity',
    state = 'scheduled',
    lease = null,
    leased_until = null
from digests
where deliveries.digest_key = digests.key and deliveries.state in ('scheduled', 'pending', 'retrying');

alter table deliveries drop column digest_key;

drop function uuid7();

-- migrate: rollback

update deliveries
set state = 'cancelled', settled_at = now()
where state in ('scheduled', 'pending', 'retrying')
    and (notification_id is null or held_by = 'digest');

delete from deliveries where notification_id is null;

alter table deliveries
    drop constraint deliveries_of_notification_or_digest,
    add column digest_key text,
    drop column lane,
    drop column accept_order;

-- squawk-ignore adding-not-nullable-field
alter table deliveries alter column notification_id set not null;

drop table digests;

drop sequence accept_order;

create function uuid7() returns uuid
language sql volatile parallel safe
as $$
    select encode(
        set_byte(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6
            ),
            6,
            112 | (get_byte(uuid_send(gen_random_uuid()), 0) & 15)
        ),
        'hex'
    )::uuid
$$;
