-- API keys of delivery functions
-- depends: 0022_key_rotation

-- migrate: apply

-- The new list has every role of the old one, so no stored row needs to be checked.
alter table api_keys
    drop constraint if exists api_keys_known_role,
    add constraint api_keys_known_role
    check (role in ('producer', 'operator', 'viewer', 'delivery', 'admin')) not valid;

-- migrate: rollback

delete from api_keys
where role = 'delivery';

alter table api_keys
    drop constraint if exists api_keys_known_role,
    add constraint api_keys_known_role check (role in ('producer', 'operator', 'viewer', 'admin')) not valid;
