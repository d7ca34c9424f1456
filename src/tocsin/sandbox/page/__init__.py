"""The page that shows virtual phones, browsers and mailboxes live."""

from importlib.resources import files

from tocsin.sandbox.responses import Response, problem

# No content of other origins, no evaluated code, and no other page may frame this one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_CONTENT_TYPES = {
    "html": "text/html; charset=UTF-8",
    "css": "text/css; charset=UTF-8",
    "js": "text/javascript; charset=UTF-8",
    "svg": "image/svg+xml",
}
_HEADERS = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-cache"),
)
_FILES = {
    file.name: Response("ok", 200, file.read_bytes(), (("content-type", content_type), *_HEADERS))
    for file in files(__name__).iterdir()
    if (content_type := _CONTENT_TYPES.get(file.name.rpartition(".")[2]))
}


def page_file(name: str = "index.html") -> Response:
    """Return the page itself or one of its files."""
    return _FILES.get(name) or problem(404, "not_found", f"The page has no file {name!r}.")
