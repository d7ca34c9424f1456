-- Rotation of API keys: a key that was replaced works until its overlap ends
-- depends: 0021_erasure_indexes

-- migrate: apply

-- `expires_at`: when a replaced key stops working; `replaced_by`: the key that was made in its place.
alter table api_keys
    add column if not exists expires_at timestamptz,
    add column if not exists replaced_by uuid;

-- migrate: rollback

-- A version that knows of no overlap must not take what was replaced for a key that works.
update api_keys
set revoked_at = coalesce(revoked_at, now())
where expires_at is not null;

alter table api_keys
    drop column if exists replaced_by,
    drop column if exists expires_at;
