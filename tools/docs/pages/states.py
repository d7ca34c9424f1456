"""The reference of states, transitions and reasons, from the tables that the code uses."""

from tocsin.domain.delivery import reasons
from tocsin.domain.delivery.states import MEANING, STATES_OF, TRANSITIONS, WAITING, State
from tools.docs.markdown import NONE, code, codes, page, table

INTRO = (
    "A delivery is one notification to one recipient by one channel, to one device or address. "
    "It is always in one of these states. A lease, a worker's time-limited claim, is not a state."
)
PICTURE = "![The states of a delivery and the transitions between them](../pictures/states.svg)"
TODAY = (
    "`delivered` comes from receipts, which today only Expo [has](expo.md#what-a-ticket-or-a-receipt-means)."
    " A receipt with an error revokes `sent`, and the error is settled like that of any attempt. "
    "A [replay](../guides/dead-letters.md) makes dead letters, `pending` again."
)

STATUSES = (
    "Producers that hand in intents [by a stream](../guides/redis-streams.md) have words of their own for "
    "the states. Each delivery shows its `status` beside its `state`, and a search takes `status` as another "
    "way to give the state. `gone`, `cancelled` and `expired` have none: it is null."
)


def states_page() -> str:
    """Build the page."""
    states = [
        [code(state), "waits" if state in WAITING else "settled", MEANING[state], _followers(state)]
        for state in State
    ]
    skipped = [[code(reason), meaning] for reason, meaning in reasons.MEANING.items()]
    return page(
        "States and reasons",
        INTRO,
        PICTURE,
        table(["state", "kind", "meaning", "may become"], states),
        TODAY,
        "## Statuses",
        STATUSES,
        table(["status", "states"], [[code(status), codes(states)] for status, states in STATES_OF.items()]),
        "## Why a delivery was skipped",
        "A person who got nothing has a `skipped` delivery whose `reason` says why. "
        "`tocsin show` and `GET /v1/notifications/{notification_id}` show it.",
        table(["reason", "meaning"], skipped),
    )


def _followers(state: State) -> str:
    return codes(follower for follower in State if follower in TRANSITIONS[state]) or NONE
