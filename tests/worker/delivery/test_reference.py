"""The dispatch reference: small, strict, and of one queue."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgence_worker.claims import Dispatch
from ledgence_worker.delivery.reference import (
    GENERATION_MAX,
    REFERENCE_BYTES,
    VERSION,
    Malformed,
    Reference,
    decode,
    decode_for,
    encode,
)

TASK, PUBLICATION = UUID(int=1), UUID(int=2)
REFERENCE = Reference(v=VERSION, tenant="t", namespace="n", queue="q", task=TASK, generation=3, publication=PUBLICATION)
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=30)


def changed(**changes: object) -> str:
    return json.dumps(json.loads(encode(REFERENCE)) | changes)


def without(name: str) -> str:
    return json.dumps({key: value for key, value in json.loads(encode(REFERENCE)).items() if key != name})


def test_a_reference_comes_back_as_it_was():
    assert decode(encode(REFERENCE)) == REFERENCE
    assert REFERENCE.dispatch == Dispatch(task_id=TASK, generation=3)


def test_it_holds_names_and_ids_and_nothing_else():
    assert json.loads(encode(REFERENCE)) == {
        "v": 1,
        "tenant": "t",
        "namespace": "n",
        "queue": "q",
        "task": str(TASK),
        "generation": 3,
        "publication": str(PUBLICATION),
    }


@given(NAMES, NAMES, NAMES, st.integers(1, GENERATION_MAX))
def test_any_names_come_back(tenant, namespace, queue, generation):
    reference = Reference(
        v=VERSION,
        tenant=tenant,
        namespace=namespace,
        queue=queue,
        task=TASK,
        generation=generation,
        publication=PUBLICATION,
    )
    assert decode(encode(reference)) == reference


def test_the_largest_reference_is_small_enough():
    longest = "\U0001f4a5" * 32
    reference = Reference(
        v=VERSION,
        tenant=longest,
        namespace=longest,
        queue=longest,
        task=TASK,
        generation=GENERATION_MAX,
        publication=PUBLICATION,
    )
    assert len(encode(reference).encode()) < REFERENCE_BYTES / 16
    assert decode(encode(reference)) == reference


@pytest.mark.parametrize(
    "body",
    [
        "",
        "rubbish",
        "null",
        "[]",
        "1",
        '"text"',
        "{}",
        "{" * 100,
        encode(REFERENCE) + "x",
        encode(REFERENCE)[:-1] + ',"v":1}',
        "\ufeff" + encode(REFERENCE),
        encode(REFERENCE) + "\0",
        "\ud800",
        changed(generation=0),
        changed(generation=-1),
        changed(generation=GENERATION_MAX + 1),
        changed(generation=1.0),
        changed(generation="1"),
        changed(generation=True),
        changed(task="1"),
        changed(task=None),
        changed(publication=[]),
        changed(tenant=""),
        changed(queue="x" * 129),
        changed(namespace="a\0b"),
        changed(data={"secret": 1}),
        changed(v="1"),
        changed(v=True),
        changed(v=None),
        *(without(name) for name in json.loads(encode(REFERENCE))),
    ],
    ids=range(36),
)
def test_whatever_else_is_malformed(body):
    with pytest.raises(Malformed) as caught:
        decode(body)
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_told_as_such(version):
    with pytest.raises(Malformed) as caught:
        decode(changed(v=version, more="fields"))
    assert caught.value.reason == "unknown_version"


def test_its_size_is_exact_in_bytes():
    room = REFERENCE_BYTES - 1 - len(encode(REFERENCE))
    assert decode(encode(REFERENCE) + " " * room) == REFERENCE
    for body in (encode(REFERENCE) + " " * (room + 1), "\u20ac" * (REFERENCE_BYTES // 3 + 1), "x" * 10_000_000):
        with pytest.raises(Malformed) as caught:
            decode(body)
        assert caught.value.reason == "oversized"


@pytest.mark.parametrize("other", [{"tenant": "T"}, {"namespace": "other"}, {"queue": "q2"}], ids=lambda o: [*o][0])
def test_a_reference_of_another_queue_is_foreign(other):
    own = {"tenant": "t", "namespace": "n", "queue": "q"}
    assert decode_for(encode(REFERENCE), **own) == REFERENCE
    with pytest.raises(Malformed) as caught:
        decode_for(encode(REFERENCE), **(own | other))
    assert caught.value.reason == "foreign"
