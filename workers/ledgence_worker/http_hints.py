"""What may be wrong with the address of a task service, when the first command gets no answer from there."""

import ssl
from http.client import HTTPException

from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import Address


def hint_of(error: Unavailable, address: Address) -> str:
    """Return what to look at, or nothing where a reply has come: then the error itself tells that."""
    match error.__cause__:
        case None:
            return ""
        case ssl.SSLCertVerificationError():
            return (
                "its certificate is not trusted: look at the host of --server, and name the certificates of an "
                "authority of your own in SSL_CERT_FILE"
            )
        case ssl.SSLError():
            return "what listens there may speak http without TLS: look at scheme and port of --server"
        case HTTPException() | ConnectionResetError() | BrokenPipeError() if not address.is_secure:
            return "what listens there may speak https: look at scheme and port of --server"
        case _:
            return "look at host and port of --server, and whether the task service is served there"
