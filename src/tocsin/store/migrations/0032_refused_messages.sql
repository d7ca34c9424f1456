-- Messages that were refused, by the ids that their queues have for them
-- depends: 0028_command_fields

-- migrate: apply

-- A queue hands out a message again and again until it is moved elsewhere: its refusal is recorded once. Null for what
-- a source hands in once.
alter table refused_intents add column if not exists message_id text;

-- migrate: rollback

alter table refused_intents drop column if exists message_id;
