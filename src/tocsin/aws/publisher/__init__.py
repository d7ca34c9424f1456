"""Publishes the rows of outboxes to topics of SNS, one message for each recipient."""
