-- Notifications by the ids that their sources know them by
-- depends: 0026_streams
-- transaction: false

-- migrate: apply

-- For show by a stream entry id; only notifications from streams have an entry.
create index concurrently if not exists notifications_by_external_id on notifications (external_id)
where external_id is not null;

-- migrate: rollback

drop index concurrently if exists notifications_by_external_id;
