-- One refusal for each message
-- depends: 0032_refused_messages
-- transaction: false

-- migrate: apply

create unique index concurrently if not exists refused_intents_one_per_message on refused_intents (
    producer, message_id
)
where message_id is not null;

-- migrate: rollback

drop index concurrently if exists refused_intents_one_per_message;
