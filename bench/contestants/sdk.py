"""What the Firebase SDKs need to find and trust the sandbox."""

from bench.contract import Arena


def python_environment(arena: Arena) -> dict[str, str]:
    """Set the address, the service account and the trusted certificate authority for the Python SDK."""
    return {
        "BENCH_FCM_URL": arena.url,
        "BENCH_CREDENTIALS": str(arena.credentials_file),
        "REQUESTS_CA_BUNDLE": str(arena.ca_file),
        "SSL_CERT_FILE": str(arena.ca_file),
    }


def node_environment(arena: Arena) -> dict[str, str]:
    """Set the same for the Node SDK, whose connections `redirect.js` sends to the sandbox."""
    return {
        "BENCH_FCM_URL": arena.url,
        "BENCH_CREDENTIALS": str(arena.credentials_file),
        "NODE_EXTRA_CA_CERTS": str(arena.ca_file),
        "NODE_ENV": "production",
    }
