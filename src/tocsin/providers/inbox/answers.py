"""What can become of an item: nobody answers, so it is stored or does not fit."""

from tocsin.providers.answers import Rule

RULES = (Rule(code="payload_too_large", outcome="rejected"),)
