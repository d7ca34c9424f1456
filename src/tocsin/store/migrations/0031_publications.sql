-- Rows of outboxes of which some messages were published to a topic, and others were not
-- depends: 0028_command_fields

-- migrate: apply

-- One row for each row of an outbox that could not be published to everybody at once; it goes when it was. `row_key` is a
-- digest of the id of the row there. `published` and `waiting` are digests of the people's groups: no id of a person is kept.
create table publications (
    outbox text not null,
    row_key uuid not null,
    published uuid[] not null,
    waiting uuid[] not null,
    updated_at timestamptz not null,
    primary key (outbox, row_key)
);

create index publications_updated on publications (updated_at);

-- migrate: rollback

drop table publications;
