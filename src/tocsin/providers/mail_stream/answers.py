"""What the answers of Redis mean for a mail command."""

from tocsin.providers.redis_streams.answers import stream_rules

FAILED = "mail_stream_publish_failed"
RULES = stream_rules(FAILED)
