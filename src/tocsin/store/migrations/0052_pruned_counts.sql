-- When a device got the last of its messages that were pruned
-- depends: 0051_session_roles

-- migrate: apply

-- Its notification_count has the pruned ones too. Those that are stored are counted when they are asked for.
alter table devices
    add column if not exists pruned_sent_at timestamptz;

-- migrate: rollback

alter table devices
    drop column if exists pruned_sent_at;
