-- Histograms of the time until deliveries were sent
-- depends: 0045_dashboard_sessions

-- migrate: apply

-- How many deliveries were sent in a minute after a time since they were accepted, or since they were due. A
-- bucket is a quarter of an octave of milliseconds.
create table if not exists latency_counts (
    minute timestamptz not null,
    measure text not null,
    bucket smallint not null,
    count bigint not null,
    constraint latency_counts_pkey primary key (measure, minute, bucket),
    constraint latency_counts_known_measure check (measure in ('accepted', 'due')),
    constraint latency_counts_known_bucket check (bucket between 0 and 127)
);

-- migrate: rollback

drop table if exists latency_counts;
