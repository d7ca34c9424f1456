"""The tour of the code: the functions of each path in the order in which they run."""

import ast
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from tools.docs.markdown import code, page
from tools.docs.source import SOURCE


class Call(NamedTuple):
    """A function on a path, as `file:function`, and what it does there."""

    place: str
    does: str

    @property
    def file(self) -> str:
        """The file below `src/tocsin`."""
        return self.place.partition(":")[0]

    @property
    def function(self) -> str:
        """The function or method."""
        return self.place.partition(":")[2]


class Walk(NamedTuple):
    """The size of a path: a switch is a call from one file into another."""

    steps: int
    files: int
    switches: int
    most_entries: int


LANE, SENDER = "engine/dispatch/lane.py", "engine/dispatch/sender.py"
WRITER, SETTLE = "engine/settle/writer.py", "store/deliveries/settle.py"
ACCEPTOR, PLANNER = "engine/accept/acceptor.py", "engine/accept/planner.py"

SEND = (
    Call(f"{LANE}:Lane.run", "claims and dispatches until stopped"),
    Call(f"{LANE}:Lane._serve", "checks the toggle and the circuit breaker of the provider, and the room"),
    Call(f"{LANE}:Lane._room", "returns how many more messages can be in flight"),
    Call(f"{LANE}:Claimer.claim", "continues in the due index where the last claim ended"),
    Call("store/deliveries/claim.py:claim", "takes the lease on due rows of the lane and reads what decides"),
    Call("store/deliveries/claim.py:read_profile", "builds the recipient's profile with their devices"),
    Call(f"{LANE}:Lane._dispatch", "takes the attempts through the steps below"),
    Call(f"{LANE}:Lane._decide", "settles what may not be sent; the rest goes on"),
    Call(
        "engine/dispatch/rules.py:DeliveryRules.decide_attempt",
        "collects the facts and applies the rules, once for those of a claim that are alike to them",
    ),
    Call("catalog/catalog.py:Catalog.upgrade", "upgrades an old payload to the newest version of its type"),
    Call("domain/decide.py:decide", "applies every rule; the first that objects decides"),
    Call("domain/decide.py:zone_of", "chooses the person's time zone"),
    Call("domain/decide.py:destinations", "lists the devices that can be reached"),
    Call(f"{LANE}:Lane._is_direct", "one device of this lane and no limit: nothing to write before sending"),
    Call(f"{LANE}:Lane._render", "renders the message, or rejects the attempt"),
    Call("engine/dispatch/render.py:Renderer.render", "builds the message in the person's language"),
    Call("catalog/catalog.py:Catalog.render", "renders the templates of the channel"),
    Call(f"{SENDER}:Sender.send", "queues the attempts"),
    Call(f"{SENDER}:Sender._pump", "starts as many as may be in flight"),
    Call(f"{SENDER}:Sender._sending", "drops what may no longer leave under its lease"),
    Call(f"{SENDER}:Sender._send", "waits for the outcomes of a batch"),
    Call("providers/http/http2_provider.py:Http2Provider.send_each", "sends its requests at once"),
    Call("providers/fcm/provider.py:FcmProvider._post", "starts the request of one message"),
    Call("providers/fcm/render.py:render", "builds the JSON of FCM"),
    Call(
        "providers/http/h2/client.py:Http2Client.post",
        "returns the request, which its batch collects once it is answered",
    ),
    Call("providers/fcm/provider.py:FcmProvider._read", "classifies it"),
    Call(f"{SENDER}:Sender._settle_answered", "settles what was answered together"),
    Call(f"{SENDER}:Sender._settle", "turns each outcome into a settlement"),
    Call(
        "engine/health/circuit_breakers.py:CircuitBreakers.record",
        "counts the outcome; too many failures open the circuit breaker",
    ),
    Call("engine/settle/settlements.py:settle_outcome", "builds what is written about the delivery"),
    Call(f"{WRITER}:SettlementWriter.put", "queues it"),
    Call(f"{WRITER}:SettlementWriter.run", "gathers settlements for 5 to 50 ms, by how many came last"),
    Call(f"{WRITER}:SettlementWriter._write", "writes them together"),
    Call(f"{SETTLE}:settle_sent", "marks the rows as sent, guarded by lease and state"),
)

PATHS: Mapping[str, tuple[str, tuple[Call, ...]]] = {
    "Accept an intent": (
        "A producer posts an intent; the answer is 202 once it is durable.",
        (
            Call("api/producer/notifications.py:accept_notification", "handles `POST /v1/notifications`"),
            Call("api/producer/intents.py:read_intent", "decodes the body, or lists every fault"),
            Call(f"{ACCEPTOR}:Acceptor.accept", "queues the request; those that come together share a write"),
            Call(f"{PLANNER}:Planner.check", "checks the intent against the catalog"),
            Call("domain/plan.py:plan", "plans one delivery for each recipient and channel, with its lane"),
            Call(f"{ACCEPTOR}:Acceptor._write", "writes what waits in one transaction"),
            Call("store/notifications.py:accept", "stores notifications and deliveries; notifies the lanes"),
            Call("store/deliveries/digests.py:join", "adds members to their digests, where a type has one"),
        ),
    ),
    "Send a push": ("A push is due, goes to FCM and is settled.", SEND),
    "Post over HTTP/2": (
        "A provider has a request for its origin.",
        (
            Call("providers/http/h2/client.py:Http2Client.post", "joins the parts of the header block"),
            Call(
                "providers/http/h2/pool.py:Pool.send", "chooses a connection; without room the request waits"
            ),
            Call("providers/http/h2/connection.py:Connection.start", "begins a stream, if the windows allow"),
            Call("http2/writer.py:FrameWriter.add_message", "adds its two frames"),
            Call("http2/writer.py:FrameWriter.flush", "writes all frames of this turn"),
            Call("providers/http/h2/connection.py:Connection.data_received", "gets what the peer sent"),
            Call(
                "http2/reader.py:FrameReader.feed",
                "splits it into frames and checks them",
            ),
            Call("providers/http/h2/connection.py:Connection.on_headers", "finds the stream"),
            Call("providers/http/h2/exchange.py:Exchange.take_headers", "decodes the head of the answer"),
            Call("providers/http/h2/connection.py:Connection.on_data", "counts content against the windows"),
            Call("providers/http/h2/exchange.py:Exchange.complete", "checks the whole answer"),
        ),
    ),
    "Answer in the sandbox": (
        "A provider's request comes to its stand-in.",
        (
            Call("sandbox/http/negotiation.py:Negotiation.connection_made", "chooses HTTP/2 by ALPN"),
            Call(
                "sandbox/http/http2_connection.py:Http2Connection.data_received", "gets what the client sent"
            ),
            Call("http2/reader.py:FrameReader.feed", "splits it into frames and checks them"),
            Call("sandbox/http/request_heads.py:HeadDecoder.decode", "decodes the head, or knows it"),
            Call("sandbox/http/http2_stream.py:Stream.take", "collects the body"),
            Call("sandbox/http/exchange.py:Exchange.handle", "answers now, later or never"),
            Call("sandbox/app.py:Application.answer", "asks the stand-in and counts its answer"),
            Call("sandbox/http/service.py:Delays.add", "delays the answer, if there is a latency"),
            Call("sandbox/http/http2_connection.py:Http2Connection.respond", "adds the frames of the answer"),
            Call("http2/writer.py:FrameWriter.flush", "writes all frames of this turn"),
        ),
    ),
    "Relay an outbox row": (
        "An application wrote a row in its own transaction.",
        (
            Call("ingress/outbox/relay.py:Relay.run", "runs the lanes of one outbox"),
            Call("ingress/outbox/relay.py:Relay._batch", "takes rows, hands them over and marks them"),
            Call("ingress/outbox/rows.py:take", "locks the next rows"),
            Call(
                "ingress/outbox/accept.py:RowAcceptor.handle",
                "turns rows into intents, keeping order",
            ),
            Call(f"{ACCEPTOR}:Acceptor.accept", "accepts them like any other"),
            Call("ingress/outbox/rows.py:record", "marks rows as published or failed, with the next retry"),
        ),
    ),
    "Publish an outbox row to an SNS topic": (
        "An application wrote a row into an outbox that has a `topic_arn`.",
        (
            Call("ingress/outbox/relay.py:Relay._batch", "takes rows, hands them over and marks them"),
            Call(
                "aws/publisher/publisher.py:TopicPublisher.handle", "publishes rows and decides their results"
            ),
            Call("aws/publisher/round.py:Round.wave", "lists messages of which none overtakes another"),
            Call("aws/publisher/calls.py:Topic.publish", "publishes up to ten messages"),
            Call("aws/publisher/progress.py:Progress.save", "remembers who was reached if others were not"),
        ),
    ),
    "Run a periodic producer": (
        "A schedule is due.",
        (
            Call("engine/periodic/scheduler.py:Scheduler._start_due", "looks for due producers every second"),
            Call("engine/periodic/claim.py:claim_run", "takes the lease on the run"),
            Call("engine/periodic/run.py:Run.perform", "keeps the lease while it works"),
            Call("engine/periodic/run.py:Run._work", "draws intents from the source in batches"),
            Call(
                "engine/periodic/run.py:Run._write",
                "accepts a batch and moves the checkpoint together",
            ),
            Call("engine/accept/write.py:accept_within", "accepts within that transaction"),
            Call("engine/periodic/run.py:Run._succeed", "schedules the next run"),
        ),
    ),
    "Expand a broadcast": (
        "An intent for everyone was accepted.",
        (
            Call("engine/accept/audiences.py:find_people", "finds that its people are not to be listed"),
            Call("store/broadcasts/broadcasts.py:create", "stores the broadcast with the notification"),
            Call("engine/broadcast/expansion.py:Expander.step", "writes the chunk that is due first"),
            Call("store/broadcasts/broadcasts.py:take", "locks the broadcast"),
            Call("engine/broadcast/expansion.py:Expander._expand", "does its next step in one transaction"),
            Call("store/deliveries/queue.py:count_unclaimed", "counts what waits in the lanes"),
            Call("engine/broadcast/pace.py:next_chunk", "decides how many people follow, and whether now"),
            Call("store/broadcasts/members.py:next_members", "lists the people behind the cursor"),
            Call("engine/accept/planner.py:Planner.plan_people", "plans their deliveries"),
            Call("engine/accept/write.py:add_planned", "stores them"),
            Call("store/broadcasts/broadcasts.py:advance", "moves the cursor"),
        ),
    ),
    "Fail to call a webhook": (
        "The host of an endpoint is down.",
        (
            Call(f"{SENDER}:Sender.send", "finds the circuit breaker of the host"),
            Call("providers/webhook/provider.py:WebhookProvider._send_one", "signs and posts the payload"),
            Call("providers/http/guarded_client.py:GuardedConnections.post", "resolves the host"),
            Call("providers/http/ssrf_guard.py:Guard.addresses", "refuses private addresses (SSRF)"),
            Call(f"{SENDER}:Sender._settle", "receives a Retry"),
            Call("engine/health/circuit_breakers.py:CircuitBreakers.record", "opens the host's circuit"),
            Call("engine/settle/settlements.py:settle_outcome", "plans the next attempt by the backoff"),
            Call(f"{SETTLE}:settle_unsent", "writes the failed attempt"),
            Call(f"{SENDER}:Sender._put_back", "holds the next messages to that host"),
            Call(
                "engine/settle/release.py:Releaser._release",
                "releases some as probes, all when it is back",
            ),
        ),
    ),
    "Send a digest": (
        "Notifications of a type with a digest were collected for its window.",
        (
            Call("store/deliveries/digests.py:join", "makes them members of the open digest, or opens one"),
            Call(f"{LANE}:Lane._dispatch", "decides about the digest's own delivery when it is due"),
            Call("engine/dispatch/digest.py:DigestPayloads.fill", "sets the payload that lists the members"),
            Call("store/deliveries/digests.py:close", "closes the digest and reads its members"),
            Call(f"{SENDER}:Sender.send", "sends it like any other message"),
            Call(f"{WRITER}:SettlementWriter._write", "settles it and its members in one transaction"),
            Call("store/deliveries/digests.py:end", "ends the members as the digest ended"),
        ),
    ),
}


def code_page() -> str:
    """Build the page; every function must exist."""
    trees = {file: _tree(file) for _, path in PATHS.values() for file in {call.file for call in path}}
    for title, (_, path) in PATHS.items():
        for call in path:
            if not _has(trees[call.file], call.function):
                raise ValueError(f"{title!r} lists {call.place}, which does not exist")
    sections = [_section(title, begins, path) for title, (begins, path) in PATHS.items()]
    files = [f"### {file}\n\n{ast.get_docstring(trees[file]) or ''}" for file in sorted(trees)]
    return page(
        "A tour of the code",
        "For a new contributor: the functions of each path, in the order in which they run. Files are "
        "below `src/tocsin`; [Architecture](architecture.md) explains the layers and "
        "[the glossary](../reference/glossary.md) the terms.",
        *sections,
        "## The files",
        *files,
        contents=True,
    )


def measure(path: tuple[Call, ...]) -> Walk:
    """Count the steps of a path, its files, the switches between them, and how often one file is entered."""
    switches = [after.file for before, after in pairwise(path) if before.file != after.file]
    # A call that returns to its caller enters no file; only a call from elsewhere does.
    calls: list[str] = []
    stack: list[str] = []
    for call in path:
        if call.file in stack:
            del stack[stack.index(call.file) + 1 :]
        else:
            stack.append(call.file)
            calls.append(call.file)
    return Walk(len(path), len({call.file for call in path}), len(switches), max(Counter(calls).values()))


def _section(title: str, begins: str, path: tuple[Call, ...]) -> str:
    walk = measure(path)
    lines = [
        f"{number}. {code(call.function)} in [{call.file}](#{_anchor(call.file)}) {call.does}"
        for number, call in enumerate(path, 1)
    ]
    size = f"{walk.steps} steps through {walk.files} files, with {walk.switches} switches between files."
    return "\n\n".join([f"## {title}", begins, "\n".join(lines), size])


def _anchor(file: str) -> str:
    return "".join(letter for letter in file.lower() if letter.isalnum() or letter == "_")


def _tree(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text("utf-8"))


def _has(tree: ast.Module, name: str) -> bool:
    """Return whether a module defines a function, or a class a method."""
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return True
