-- People by their attributes
-- depends: 0024_attributes
-- transaction: false

-- migrate: apply

-- Audiences by attributes. Entries are hashes, so that no value is too long for one.
create index concurrently if not exists users_by_attributes on users using gin (attributes jsonb_path_ops)
where attributes is not null;

-- migrate: rollback

drop index concurrently if exists users_by_attributes;
