-- One index by the id of a notification, and no foreign key to it
-- depends: 0049_source_lags
-- transaction: false

-- migrate: apply

-- Checking it took a tenth of what accepting costs: a look-up, a row lock and a WAL record for each delivery. Deliveries are
-- stored in one statement with their notification, or while another of its deliveries waits, and retention deletes a
-- notification only when it has none.
-- Without a transaction there is no lock timeout but this one. It is shorter than the deadlock timeout: statements lock
-- these tables in either order, and the migration has to be the one that gives up.
set lock_timeout = '500ms';

-- Asked for first, so that a retry does not lock the table for nothing.
do $$
begin
    if exists (
        select
        from pg_constraint
        where conrelid = 'deliveries'::regclass and conname = 'deliveries_notification_id_fkey'
    ) then
        alter table deliveries drop constraint deliveries_notification_id_fkey;
    end if;
end $$;

-- A build waits for every transaction under way, without blocking any.
reset lock_timeout;

-- The key has what search reads of a notification: one index entry instead of two for each that is accepted.
create unique index concurrently if not exists notifications_by_id on notifications (id) include (type, producer);

set lock_timeout = '500ms';

alter table notifications
    drop constraint notifications_pkey,
    add constraint notifications_pkey primary key using index notifications_by_id;

reset lock_timeout;

drop index concurrently if exists notifications_in_order;

-- migrate: rollback

create index concurrently if not exists notifications_in_order on notifications (id) include (type, producer);

create unique index concurrently if not exists notifications_by_id on notifications (id);

alter table notifications
    drop constraint notifications_pkey,
    add constraint notifications_pkey primary key using index notifications_by_id;

alter table deliveries
    add constraint deliveries_notification_id_fkey
    foreign key (notification_id) references notifications (id) on delete cascade not valid;

alter table deliveries validate constraint deliveries_notification_id_fkey;
