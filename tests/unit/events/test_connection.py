"""How the errors of the Kafka client are reported."""

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InvalidTopicError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
)

from tidegate.events.connection import translated_errors
from tidegate.schemas.error import UnavailableError

ADD = "add an ACL; `tidegate doctor` names the ACLs that daemons need"
ERRORS = [
    (UnknownTopicOrPartitionError(), "Kafka at k:1 does not have the topic; create it with `tidegate topics create`"),
    (KafkaConnectionError(), "Kafka does not answer at k:1; check that it runs and that the address is right"),
    (TimeoutError(), "Kafka at k:1 did not answer in time"),
    (OSError(24, "Too many open files"), "Kafka at k:1 cannot be reached: Too many open files"),
    (OSError("closed"), "Kafka at k:1 cannot be reached: closed"),
    (TopicAuthorizationFailedError("t"), f"Kafka at k:1 does not let its user use the topic t: {ADD}"),
    (TopicAuthorizationFailedError({"t", "s"}), f"Kafka at k:1 does not let its user use the topic s, t: {ADD}"),
    (GroupAuthorizationFailedError("g"), f"Kafka at k:1 does not let its user use its group: {ADD}"),
    (TransactionalIdAuthorizationFailed(), f"Kafka at k:1 does not let its user use its transactional id: {ADD}"),
    (InvalidTopicError("t"), "Kafka at k:1 refused: [Error 17] InvalidTopicError: t"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS)
def test_an_error_says_what_kafka_did(error: Exception, text: str) -> None:
    with pytest.raises(UnavailableError) as caught, translated_errors("k:1"):
        raise error

    assert str(caught.value) == text
