"""The types of the soak, written into a catalog folder."""

from pathlib import Path

PUSH, LIMITED, MAIL, HOOK = "soak_push", "soak_limited", "soak_mail", "soak_hook"
POISON_MAIL, POISON_PUSH = "soak_poison_mail", "soak_poison_push"
POISONS = (POISON_MAIL, POISON_PUSH)
LIMIT = 3

_TYPE = """\
{name}:
  version: 1
  category: soak
  channels: [{channel}]
  payload:
    type: object
    properties:
      number: {{type: integer, examples: [1]}}
      text: {{type: string, examples: [some]}}
    required: [number, text]
  policies: {policies}
"""
_PUSH = {"push.title": "Soak", "push.body": "{{ text }} {{ number }}"}
_MAIL = {
    "email.subject": "Soak {{ number }}",
    "email.text": "{{ text }}",
    "email.html": "<style>p { color: red }</style><p>{{ text }}</p>",
}
_TYPES = {
    PUSH: ("push", "{}", _PUSH),
    LIMITED: ("push", f"{{throttle: {{limit: {LIMIT}, per: 7d}}}}", _PUSH),
    MAIL: ("email", "{}", _MAIL),
    HOOK: ("webhook", "{}", {}),
    # They pass the check with its examples and fail with the payload that the soak sends.
    POISON_MAIL: ("email", "{}", {**_MAIL, "email.html": "<p>{{ 100 / number }}</p>"}),
    POISON_PUSH: ("push", "{}", {**_PUSH, "push.body": "{{ text[0] }}"}),
}
POISONED = {"number": 0, "text": ""}


def write_catalog(folder: Path) -> Path:
    """Write the catalog and return its folder."""
    (folder / "types").mkdir(parents=True)
    for name, (channel, policies, texts) in _TYPES.items():
        declaration = _TYPE.format(name=name, channel=channel, policies=policies)
        (folder / "types" / f"{name}.yaml").write_text(declaration)
        if texts:
            place = folder / "templates" / name / "en"
            place.mkdir(parents=True)
            for part, text in texts.items():
                (place / f"{part}.j2").write_text(text)
    return folder
