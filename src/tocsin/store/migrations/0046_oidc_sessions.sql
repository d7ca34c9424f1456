-- Sessions of people who signed in with OpenID Connect
-- depends: 0045_dashboard_sessions

-- migrate: apply

-- A session is of an API key, which has the role, or of a person (`subject`) of an issuer, with the role that they had
-- when they signed in.
alter table dashboard_sessions
    -- squawk-ignore ban-drop-not-null
    alter column key_id drop not null,
    add column if not exists issuer text,
    add column if not exists subject text,
    add column if not exists name text,
    add column if not exists role text,
    add column if not exists org_id text;

alter table dashboard_sessions
    drop constraint if exists dashboard_sessions_of_key_or_person;

alter table dashboard_sessions
    add constraint dashboard_sessions_of_key_or_person check (
        (key_id is null) = (issuer is not null and subject is not null and name is not null and role is not null)
    ) not valid;

-- migrate: rollback

delete from dashboard_sessions
where key_id is null;

alter table dashboard_sessions
    drop constraint if exists dashboard_sessions_of_key_or_person,
    drop column if exists org_id,
    drop column if exists role,
    drop column if exists name,
    drop column if exists subject,
    drop column if exists issuer,
    -- squawk-ignore adding-not-nullable-field
    alter column key_id set not null;
