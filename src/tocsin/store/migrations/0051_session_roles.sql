-- The values of the claim that gave a person the role of their session
-- depends: 0046_oidc_sessions

-- migrate: apply

-- With them the role follows the settings. Without them, as older processes open sessions, a session has ended.
alter table dashboard_sessions
    add column if not exists role_claim text,
    add column if not exists role_values text[];

-- migrate: rollback

alter table dashboard_sessions
    drop column if exists role_values,
    drop column if exists role_claim;
