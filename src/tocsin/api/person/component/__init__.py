"""The web component `<tocsin-inbox>`: a bell, a list, preferences and Web Push for pages of applications."""

import hashlib
from importlib.resources import files

import msgspec
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PUBLIC, Routes, Tag

FOLDER = "/v1/inbox/component"

_MEDIA_TYPES = {".d.ts": "text/plain", ".js": "text/javascript"}

routes = Routes(Tag.INBOX)


class ComponentFile(msgspec.Struct, frozen=True):
    """A file of the component, as it is served."""

    content: bytes
    media_type: str
    etag: str


def _read() -> dict[str, ComponentFile]:
    found = {}
    for file in files(__name__).iterdir():
        for ending, media_type in _MEDIA_TYPES.items():
            if file.name.endswith(ending):
                content = file.read_bytes()
                etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                found[file.name] = ComponentFile(content, media_type, etag)
    return found


FILES = _read()


@routes(
    f"GET {FOLDER}/{{file}}",
    "A file of the web component: tocsin-inbox.js, what it imports, its types, its service worker",
    PUBLIC,
    problems=(NOT_FOUND,),
    answer=str,
    answer_type="text/javascript",
)
async def component_file(request: ApiRequest, file: str) -> ASGIResponse:
    """Return a file, or 304 if the caller has it already."""
    found = FILES.get(file)
    if found is None:
        raise ProblemError(
            NOT_FOUND, f"The component has no such file; it begins at {FOLDER}/tocsin-inbox.js."
        )
    # Browsers ask again each time: its files import each other and must be of one version.
    headers = {"ETag": found.etag, "Cache-Control": "public, no-cache", "X-Content-Type-Options": "nosniff"}
    if found.etag in _tags(request.headers.get("if-none-match", "")):
        return ASGIResponse(status_code=304, headers=headers, media_type=found.media_type)
    return ASGIResponse(body=found.content, headers=headers, media_type=found.media_type)


def _tags(header: str) -> set[str]:
    """Return the tags of an `If-None-Match`; a proxy that compresses makes them weak."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
