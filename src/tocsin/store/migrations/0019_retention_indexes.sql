-- Indexes of retention, built while the tables are in use
-- depends: 0016_retention
-- transaction: false

-- migrate: apply

create index concurrently if not exists registration_rates_by_window on registration_rates (window_started_at);

create index concurrently if not exists toggle_changes_by_time on toggle_changes (changed_at);

-- migrate: rollback

drop index concurrently if exists toggle_changes_by_time;

drop index concurrently if exists registration_rates_by_window;
