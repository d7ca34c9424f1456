"""What the answers of Redis mean for an event."""

from tocsin.providers.redis_streams.answers import stream_rules

FAILED = "gateway_stream_publish_failed"
RULES = stream_rules(FAILED)
