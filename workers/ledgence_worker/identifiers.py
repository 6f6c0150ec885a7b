"""Names of programs, versions, queues, tenants and namespaces: what they may look like."""

from ledgence_worker.errors import InvalidInput
from ledgence_worker.limits import IDENTIFIER_BYTES


def check_identifier(value: object, *, what: str) -> str:
    """Return the value if it is 1-128 bytes of printable text without blanks at its ends. Raises InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {type(value).__name__}.")
    if not value.isprintable() or value != value.strip():
        raise InvalidInput(f"{what} {value[:40]!r} must be printable text without blanks at its ends.")
    if not 1 <= len(value.encode()) <= IDENTIFIER_BYTES:
        raise InvalidInput(f"{what} must be 1-{IDENTIFIER_BYTES} bytes of UTF-8, not {len(value.encode())}.")
    return value
