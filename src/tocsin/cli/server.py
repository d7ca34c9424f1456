"""Finding the server that a command talks to: over HTTP, or by its database."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
import psutil

from tocsin.api.settings import LARGEST_PAGE
from tocsin.cli.target import Target
from tocsin.client.address import checked_base_url, checked_secret
from tocsin.client.blocking import Blocking
from tocsin.client.errors import UnavailableError
from tocsin.client.exchange import Call, CallOptions, ClientRequest, NoReply, RetryPolicy
from tocsin.client.replies import call, read
from tocsin.client.transport import HttpTransport, ServerAddress
from tocsin.domain.errors import TocsinError
from tocsin.settings.build import PREFIX

if TYPE_CHECKING:
    from tocsin.settings.tree import Settings

T = TypeVar("T")
P = TypeVar("P", bound="Page")

_API_OF_A_TREE = ["-m", "tocsin.cli", "api", "--tied"]
_WHAT_TO_DO = (
    "Start one by `tocsin serve`, or name one: its address by --server URL --key KEY (TOCSIN_SERVER, "
    "TOCSIN_KEY), or its database by TOCSIN_DATABASE_URL."
)
_PATIENCE = RetryPolicy(deadline=15.0, retries=2)
LONGEST_UPLOAD = 3_600.0
_ONCE = RetryPolicy(deadline=15.0, timeout=15.0, retries=0)


class NoServerError(TocsinError):
    """There is no server to talk to, or there are several."""


class NoAnswerError(TocsinError):
    """The server that a command talks to over HTTP does not answer."""


class Page(Protocol):
    """A page of a list; `next` is the `before` of the following one."""

    @property
    def next(self) -> object:
        """Return the cursor, or None after the last page."""
        ...


class Database(msgspec.Struct, frozen=True):
    """A server that is reached by its database, and how to describe it."""

    settings: "Settings"
    url: str
    label: str


class Instance(msgspec.Struct, frozen=True):
    """A server of `tocsin serve` or `tocsin demo` that runs on this machine."""

    pid: int
    folder: Path
    environment: Mapping[str, str]

    def settings(self) -> "Settings":
        """Load the settings that the server has: paths in them are relative to its folder."""
        from tocsin.settings.load import load_settings

        os.chdir(self.folder)
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            del os.environ[name]
        os.environ.update(self.environment)
        return load_settings()

    @property
    def port(self) -> int | None:
        """Return the port that its API listens on, or None if it does not yet."""
        with suppress(psutil.Error):
            for socket in psutil.Process(self.pid).net_connections("tcp"):
                if socket.status == psutil.CONN_LISTEN:
                    return int(socket.laddr.port)
        return None


class Remote(Blocking):
    """The HTTP API of a server, with an API key."""

    def __init__(self, url: str, key: str) -> None:
        self.label = f"server {url}"
        options = CallOptions(checked_secret("--key (TOCSIN_KEY)", key), _PATIENCE)
        self._http = HttpTransport(ServerAddress(url))
        super().__init__(self._http, options)

    def call(self, answer: type[T], method: str, *path: object, body: object = None, **query: object) -> T:
        """Make a call; the parts of its path are quoted."""
        joined = "/v1/" + "/".join(quote(str(part), safe="") for part in path)
        given = tuple((name, str(value)) for name, value in query.items() if value is not None)
        try:
            return self._run(call(answer, method, joined, body, query=given))
        except UnavailableError as error:
            raise NoAnswerError(
                f"The {self.label} is unavailable: {error.why}. Check --server (TOCSIN_SERVER), and that it "
                "is ready: GET /readyz."
            ) from error

    def upload(self, answer: type[T], content_type: str, parts: Iterator[bytes], *path: object) -> T:
        """Put a body of any size, sent while it is read; it cannot be repeated."""
        joined = "/v1/" + "/".join(quote(str(part), safe="") for part in path)
        request = ClientRequest(Call("PUT", joined), self._link.secret, LONGEST_UPLOAD)
        reply = self._http.upload(request, content_type, parts)
        if isinstance(reply, NoReply):
            raise NoAnswerError(f"The {self.label} did not take all of it: {reply.why}. Upload it again.")
        return read(reply, answer)

    def call_once(self, answer: type[T], method: str, *path: object, body: object = None) -> T:
        """Make a call that is not to be repeated when its answer is lost."""
        several, self._link = self._link, msgspec.structs.replace(self._link, policy=_ONCE)
        try:
            return self.call(answer, method, *path, body=body)
        finally:
            self._link = several

    def list_pages(
        self,
        page: type[P],
        items: Callable[[P], Sequence[T]],
        *path: object,
        limit: int,
        before: object = None,
        **query: object,
    ) -> list[T]:
        """List up to `limit` items, page by page."""
        listed: list[T] = []
        while len(listed) < limit:
            size = min(limit - len(listed), LARGEST_PAGE)
            found = self.call(page, "GET", *path, limit=size, before=before, **query)
            listed += items(found)
            before = found.next
            if before is None:
                break
        return listed


def find_server(target: Target) -> Remote | Database:
    """Return the server to talk to, or raise NoServerError; nothing is started or created."""
    if target.url is None:
        return find_database()
    try:
        url = checked_base_url(target.url, "--server (TOCSIN_SERVER)")
        if target.key is not None:
            return Remote(url, target.key)
    except ValueError as error:
        raise NoServerError(str(error)) from error
    parts = urlsplit(url)
    if parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        for instance in running_instances():
            if instance.port == (parts.port or 80):
                return _of_instance(instance)
    raise NoServerError(
        f"{url} needs an API key: give --key before the command, or set TOCSIN_KEY. "
        "On the server's machine, as the user who runs it, `tocsin keys create NAME --role operator` "
        "creates one."
    )


def find_database() -> Database:
    """Return the database of the settings, or of a server that runs on this machine."""
    from tocsin.settings.load import load_settings

    settings = load_settings()
    if found := configured_database(settings):
        return found
    if settings.data_dir:
        raise NoServerError(f"No server runs in {settings.data_dir} (TOCSIN_DATA_DIR). {_WHAT_TO_DO}")
    instances = list(running_instances())
    if len(instances) == 1:
        return _of_instance(instances[0])
    if instances:
        ports = ", ".join(f"http://127.0.0.1:{instance.port or '…'}" for instance in instances)
        raise NoServerError(f"Several servers run on this machine: {ports}. Choose one by --server URL.")
    raise NoServerError(f"No server is set, and this user runs none on this machine. {_WHAT_TO_DO}")


def configured_database(settings: "Settings") -> Database | None:
    """Return the database that the settings name, or the embedded one of their folder if it runs."""
    if settings.database_url:
        return Database(settings, settings.database_url, database_label(settings, settings.database_url))
    from tocsin.compose.database import data_dir
    from tocsin.store.embedded import EmbeddedPostgres

    folder = data_dir(settings)
    url = EmbeddedPostgres(folder).running_url()
    return Database(settings, url, f"embedded database in {folder}") if url else None


def running_instances() -> Iterator[Instance]:
    """List the servers of this user on this machine; root's are not those of others, nor of containers."""
    user, container = os.geteuid(), _container_of(os.getpid())
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.uids().effective != user:
                continue
            if process.cmdline()[-len(_API_OF_A_TREE) :] != _API_OF_A_TREE:
                continue
            if _container_of(process.pid) != container:
                continue
            given = {name: value for name, value in process.environ().items() if name.startswith(PREFIX)}
            yield Instance(process.pid, Path(process.cwd()), given)


def _container_of(pid: int) -> Path | None:
    """Return the namespace of a process, which differs between containers; None where there are none."""
    return Path(f"/proc/{pid}/ns/pid").readlink() if sys.platform == "linux" else None


def _of_instance(instance: Instance) -> Database:
    settings = instance.settings()
    url = str(settings.database_url)
    return Database(settings, url, f"the server that runs on this machine, {database_label(settings, url)}")


def database_label(settings: "Settings", url: str) -> str:
    """Describe a database without its password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or parse_qs(parts.query).get("host", ["this machine"])[0]
        name = parts.path.lstrip("/")
    except ValueError:
        host = name = ""
    # An address that cannot be split may have its password anywhere.
    if not (re.fullmatch(r"[\w./:-]+", host) and re.fullmatch(r"[\w.$-]*", name)):
        return "the database of TOCSIN_DATABASE_URL"
    return f"database {name or 'of the default name'} on {host}, schema {settings.schema}"
