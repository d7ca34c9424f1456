"""Organisations: a person belongs to at most one, and whoever is bound to one reaches nobody else."""

from typing import Annotated

from msgspec import Meta

NOT_YOURS = "not_your_organisation"
"""The code of the fault of an intent for people outside of its organisation."""

# A lone surrogate cannot be stored; no JSON body holds one, but the claim of a JWT may.
OrgId = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f\ud800-\udfff]+\Z")]
