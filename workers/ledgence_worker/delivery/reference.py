"""The dispatch reference: what a message carries. It names work, and holds no payload, authority or broker's handle."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ledgence_worker import strict_json, wire
from ledgence_worker.claims import Dispatch
from ledgence_worker.errors import InvalidInput, LedgenceError
from ledgence_worker.identifiers import check_identifier

VERSION: Final = 1
#: A body is smaller than this.
REFERENCE_BYTES: Final = 16 * 1024
GENERATION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One publication of one generation of a task. ``v`` is the version of this form."""

    v: int
    tenant: str
    namespace: str
    queue: str
    task: UUID
    generation: int
    publication: UUID

    @property
    def dispatch(self) -> Dispatch:
        """The work that it names."""
        return Dispatch(task_id=self.task, generation=self.generation)


class Malformed(LedgenceError):
    """A message is no reference, or none of this queue: it can never be claimed. ``reason`` is one word for records."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"The message is {reason}: {detail}")
        self.reason, self.detail = reason, detail


def encode(reference: Reference) -> str:
    """Return a reference as a message's body."""
    return wire.encode(reference).decode()


def decode(body: str) -> Reference:
    """Read a message's body strictly. Raises Malformed with the reason oversized, malformed or unknown_version."""
    if len(body) >= REFERENCE_BYTES or len(body.encode(errors="replace")) >= REFERENCE_BYTES:
        raise Malformed("oversized", f"a reference has less than {REFERENCE_BYTES} bytes")
    try:
        document = strict_json.loads(body.encode(), what="the body", limit=REFERENCE_BYTES, depth=2)
        version = document.get("v") if isinstance(document, dict) else None
        if isinstance(version, int) and not isinstance(version, bool) and version != VERSION:
            raise Malformed("unknown_version", f"version {version}, and this worker reads {VERSION}")
        reference: Reference = wire.read(Reference, document, "the body")
        for name in ("tenant", "namespace", "queue"):
            check_identifier(getattr(reference, name), what=name)
        if not 1 <= reference.generation <= GENERATION_MAX:
            raise InvalidInput(f"generation {reference.generation} cannot be.")
    except (InvalidInput, UnicodeEncodeError) as error:
        raise Malformed("malformed", str(error)) from None
    return reference


def decode_for(body: str, *, tenant: str, namespace: str, queue: str) -> Reference:
    """Read the body of a message that came from the queue's destination. Raises Malformed, with foreign among them."""
    reference = decode(body)
    if (reference.tenant, reference.namespace, reference.queue) != (tenant, namespace, queue):
        told = f"{reference.tenant}/{reference.namespace}/{reference.queue}"
        raise Malformed("foreign", f"it is of {told}, and came to {tenant}/{namespace}/{queue}")
    return reference
