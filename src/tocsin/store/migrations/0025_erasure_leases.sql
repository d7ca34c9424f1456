-- Erasures under lease, with the position up to which refused intents were read
-- depends: 0020_erasure

-- migrate: apply

-- One worker at a time continues an erasure, no sooner than `leased_until`. Refused intents up to `refused_until` were
-- read: the table has no index by person, and is read once for each erasure.
alter table erasures
    add column if not exists leased_until timestamptz,
    add column if not exists refused_until uuid;

-- migrate: rollback

alter table erasures
    drop column if exists refused_until,
    drop column if exists leased_until;
