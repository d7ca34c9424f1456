"""The client and the package h2 as its peer, in any order of steps: what one sends, the other accepts."""

import asyncio

import h2.config
import h2.connection
import h2.errors
import h2.events
from h2.settings import SettingCodes as Codes
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.providers.http.h2.memory import Owner
from tocsin.providers.http.h2.errors import RequestFailedError, StreamResetError
from tocsin.providers.http.h2.exchange import Exchange


class Conversation(RuleBasedStateMachine):
    """h2 raises for every frame that breaks a rule; the model below knows who waits for what."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.server = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.asked: dict[int, tuple[Exchange, bytes]] = {}
        self.answering: dict[int, bytes] = {}
        self.pings = 0
        self.run(self.begin())

    def run(self, coroutine: object = None) -> None:
        async def step() -> None:
            if coroutine is not None:
                await coroutine  # type: ignore[misc]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.carry()

        self.loop.run_until_complete(step())

    async def begin(self) -> None:
        self.owner = Owner()
        self.server.initiate_connection()
        self.carry()

    def carry(self) -> None:
        """Bring each side what the other wrote, until neither writes."""
        for _ in range(50):
            to_client = self.server.data_to_send()
            if to_client:
                # In small pieces, so that frames break off anywhere.
                for start in range(0, len(to_client), 1_000):
                    self.owner.connection.data_received(to_client[start : start + 1_000])
            self.owner.connection.writer.flush()
            to_server = self.owner.wire.take()
            for event in self.server.receive_data(to_server) if to_server else ():
                self.meet(event)
            if not to_client and not to_server:
                return
        raise AssertionError("they never stop writing")

    def meet(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=int(stream_id)):
                self.bodies[stream_id] = b""
            case h2.events.DataReceived(stream_id=int(stream_id), data=bytes(data)):
                self.bodies[stream_id] += data
            case h2.events.StreamEnded(stream_id=int(stream_id)):
                self.ended.add(stream_id)
                assert self.bodies[stream_id] == self.asked[stream_id][1]
            case h2.events.StreamReset(stream_id=int(stream_id)):
                self.forget(stream_id)
            case h2.events.PingAckReceived():
                self.pings -= 1
            case h2.events.ConnectionTerminated():
                raise AssertionError("the client left")
            case _:
                pass

    def forget(self, stream_id: int) -> None:
        self.bodies.pop(stream_id, None)
        self.ended.discard(stream_id)
        self.answering.pop(stream_id, None)

    def has_room(self) -> bool:
        connection = self.owner.connection
        return len(connection.streams) < connection.limit

    @precondition(has_room)
    @rule(body=st.binary(max_size=50) | st.integers(1, 40_000).map(lambda size: b"x" * size))
    def post(self, body: bytes) -> None:
        async def post() -> None:
            exchange = self.owner.post(body)
            self.asked[exchange.stream_id] = exchange, body

        self.run(post())

    @precondition(lambda self: self.bodies)
    @rule(data=st.data(), increment=st.integers(1, 100_000))
    def enlarge_a_window(self, data: st.DataObject, increment: int) -> None:
        stream_id = data.draw(st.sampled_from(sorted(self.bodies)))
        if stream_id not in self.ended and self.server.remote_flow_control_window(stream_id) < 2**30:
            self.server.increment_flow_control_window(increment, stream_id)
        if self.server.inbound_flow_control_window < 2**30:
            self.server.increment_flow_control_window(increment)
        self.run()

    @rule(
        window=st.integers(0, 100_000),
        streams=st.integers(0, 20),
        frame=st.integers(16_384, 100_000),
    )
    def change_settings(self, window: int, streams: int, frame: int) -> None:
        changed: dict[Codes | int, int] = {
            Codes.INITIAL_WINDOW_SIZE: window,
            Codes.MAX_CONCURRENT_STREAMS: streams,
            Codes.MAX_FRAME_SIZE: frame,
            Codes.HEADER_TABLE_SIZE: window % 5_000,
        }
        self.server.update_settings(changed)
        self.run()
        assert self.owner.connection.limit == streams

    @precondition(lambda self: bool(set(self.bodies) - set(self.answering)))
    @rule(data=st.data(), interim=st.booleans(), body=st.binary(max_size=5_000), end=st.booleans())
    def answer(self, data: st.DataObject, *, interim: bool, body: bytes, end: bool) -> None:
        stream_id = data.draw(st.sampled_from(sorted(set(self.bodies) - set(self.answering))))
        if interim:
            self.server.send_headers(stream_id, [(":status", "103"), ("link", "</x>")])
        self.server.send_headers(stream_id, [(":status", "200"), ("x-stream", str(stream_id))])
        self.server.send_data(stream_id, body, pad_length=len(body) % 9 if end else None)
        self.answering[stream_id] = body
        if end:
            self.finish(stream_id, trailers=interim)
        self.run()

    @precondition(lambda self: self.answering)
    @rule(data=st.data(), trailers=st.booleans())
    def finish_an_answer(self, data: st.DataObject, *, trailers: bool) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.answering))), trailers=trailers)
        self.run()

    def finish(self, stream_id: int, *, trailers: bool) -> None:
        if trailers:
            self.server.send_headers(stream_id, [("x-trailer", "1")], end_stream=True)
        else:
            self.server.end_stream(stream_id)
        exchange, _ = self.asked[stream_id]
        expected = self.answering.pop(stream_id)
        self.bodies.pop(stream_id)
        self.ended.discard(stream_id)
        self.run()
        reply = exchange.result()
        assert (reply.status, reply.body, reply.headers) == (200, expected, {"x-stream": str(stream_id)})

    @precondition(lambda self: self.bodies)
    @rule(data=st.data(), code=st.sampled_from(list(h2.errors.ErrorCodes)))
    def reset(self, data: st.DataObject, code: h2.errors.ErrorCodes) -> None:
        stream_id = data.draw(st.sampled_from(sorted(self.bodies)))
        self.server.reset_stream(stream_id, code)
        self.forget(stream_id)
        self.run()
        error = self.asked[stream_id][0].exception()
        assert isinstance(error, StreamResetError)
        assert error.may_be_processed == (code != h2.errors.ErrorCodes.REFUSED_STREAM)

    @precondition(lambda self: self.bodies)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        stream_id = data.draw(st.sampled_from(sorted(self.bodies)))

        async def cancel() -> None:
            self.asked[stream_id][0].cancel()

        self.run(cancel())
        assert stream_id not in self.bodies
        assert stream_id not in self.owner.connection.streams

    @rule()
    def ping(self) -> None:
        self.server.ping(b"12345678")
        self.pings += 1
        self.run()
        assert self.pings == 0

    @rule()
    def tick(self) -> None:
        async def tick() -> None:
            self.owner.connection.tick(asyncio.get_running_loop().time())

        self.run(tick())

    @invariant()
    def both_know_the_same_streams(self) -> None:
        assert set(self.owner.connection.streams) == set(self.bodies)
        assert not self.owner.closed
        waiting = {stream_id for stream_id, (exchange, _) in self.asked.items() if not exchange.done()}
        assert waiting == set(self.bodies)

    @invariant()
    def both_know_the_same_windows(self) -> None:
        connection = self.owner.connection
        assert connection._send_window.size == self.server.inbound_flow_control_window
        for stream_id, exchange in connection.streams.items():
            if stream_id not in self.ended:
                window = min(exchange.window, connection._send_window.size)
                assert window == self.server.remote_flow_control_window(stream_id)

    @invariant()
    def a_body_waits_only_for_a_window(self) -> None:
        connection = self.owner.connection
        for exchange in connection._send_window.blocked.values():
            assert exchange.unsent
            assert connection._send_window.size <= 0 or exchange.window <= 0

    def teardown(self) -> None:
        """Leave with GOAWAY: what waits may have been processed."""

        async def leave() -> None:
            self.owner.connection.connection_lost(None)

        self.run(leave())
        for exchange, _ in self.asked.values():
            assert exchange.done()
            if not exchange.cancelled() and (error := exchange.exception()):
                assert isinstance(error, RequestFailedError)
        self.loop.close()


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
