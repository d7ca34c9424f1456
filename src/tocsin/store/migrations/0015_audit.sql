-- The audit: who did what to which subject
-- depends: 0013_processes

-- migrate: apply

-- Written in the transaction of the change that it describes. Ids are UUIDv7 by the database's clock, so their
-- order is that of `at`. The bounds keep every subject within an index entry.
create table audit (
    id uuid primary key,
    at timestamptz not null,
    actor text not null,
    action text not null,
    subject text not null,
    details jsonb not null,
    constraint audit_bounded_texts check (
        octet_length(actor) <= 2400 and octet_length(action) <= 100 and octet_length(subject) <= 1200
    ),
    constraint audit_bounded_details check (pg_column_size(details) <= 65536)
);

create index audit_by_subject on audit (subject, id);

-- migrate: rollback

drop table audit;
