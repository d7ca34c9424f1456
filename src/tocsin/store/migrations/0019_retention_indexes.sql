-- Indexes of retention, built while the tables are in use
-- depends: 0016_retention
-- transaction: false

-- migrate: apply

create index concurrently if not exists registration_rates_by_window on registration_rates (window_started_at);

create index concurrently if not exists toggle_changes_by_time on toggle_changes (changed_at);

-- What was sent to a bare address: erasure and export of the person whose address it is.
create index concurrently if not exists deliveries_of_address on deliveries (address, notification_id)
where address is not null and address <> 'erased';

-- migrate: rollback

drop index concurrently if exists deliveries_of_address;

drop index concurrently if exists toggle_changes_by_time;

drop index concurrently if exists registration_rates_by_window;
