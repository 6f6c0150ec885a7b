"""Failures that no server of a test can cause say what they are, too."""

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    MetadataRetrievalError,
    ProxyConnectionError,
    SSLError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from ledgence_worker.delivery.sqs.clients import make_client, make_session
from ledgence_worker.delivery.sqs.faults import Outcome, fault_of


@pytest.fixture
def explain(options):
    client = make_client(make_session(options), options)
    yield lambda error: fault_of(error, client=client, options=options, action="SendMessage")
    client.close()


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="https://x"),
        ProxyConnectionError(proxy_url="http://x", error="refused"),
        CredentialRetrievalError(provider="process", error_msg="it failed"),
        MetadataRetrievalError(error_msg="it failed"),
        TokenRetrievalError(provider="sso", error_msg="it failed"),
        UnauthorizedSSOTokenError(),
    ],
)
def test_what_fails_before_anything_is_sent_did_nothing(explain, options, error):
    fault = explain(error)
    assert fault.outcome is Outcome.UNDONE
    assert fault.text == f"SendMessage on {options.queue_url}: {error}"


def test_a_role_that_may_not_be_taken_is_not_the_queues_refusal(explain):
    answer = {"Error": {"Code": "AccessDenied", "Message": "No."}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    fault = explain(ClientError(answer, "AssumeRole"))
    assert fault.outcome is Outcome.UNDONE
    assert "when calling the AssumeRole operation: No." in fault.text


@pytest.mark.parametrize(
    "error",
    [
        SSLError(endpoint_url="https://x", error="bad record mac"),
        BotoCoreError(),
        ValueError("x"),
        ClientError({}, "SendMessageBatch"),
    ],
)
def test_of_what_nobody_foresaw_nobody_knows_what_it_did(explain, error):
    assert explain(error).outcome is Outcome.UNKNOWN
