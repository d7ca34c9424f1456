"""A resolver that a test scripts, and a server of HTTP/1.1 behind the names that it resolves."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trustme


class Names:
    """A resolver that gives each of its answers once and then keeps to the last."""

    def __init__(self, *answers: str) -> None:
        self.answers = [answer.split() for answer in answers]
        self.asked = 0

    async def __call__(self, host: str) -> Sequence[str]:
        assert host
        self.asked += 1
        if not self.answers:
            return []
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Server:
    """Gives every request the same answer over TLS."""

    def __init__(self, port: int, ca_file: Path) -> None:
        self.port = port
        self.ca_file = ca_file
        self.connections = 0
        self.served = 0
        self.reply = b"HTTP/1.1 204 No Content\r\n\r\n"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.served += 1
                writer.write(self.reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def write_certificates(folder: Path) -> Path:
    """Write a server's certificate and key, and return the file of its authority."""
    authority = trustme.CA()
    leaf = authority.issue_cert("push.example.com", "127.0.0.1", "127.0.0.2")
    leaf.private_key_pem.write_to_path(folder / "server.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "server.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return folder / "ca.pem"


@asynccontextmanager
async def serving(folder: Path, address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Server]:
    ca_file = write_certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    made = Server(port, ca_file)
    server = await asyncio.start_server(made.answer, address, port, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
