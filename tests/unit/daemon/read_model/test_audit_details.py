"""The details of an entry of the audit log in words."""

from tidegate.daemon.read_model.audit_log import in_words

REQUEST = {"request": "POST /dags/{dag_id}/clear", "request_id": "r1", "from": "127.0.0.1"}


def test_details_are_words_without_the_request() -> None:
    body = {"task": None, "task_ids": ["a", "b"], "only_failed": True, "upstream": False, "conf": {"day": 1}, "empty": {}}

    assert in_words({"body": body, **REQUEST}) == [
        "task ids: a, b",
        "only failed: yes",
        "upstream: no",
        'conf: {"day":1}',
    ]
    assert in_words({"slots": 0, "slots_before": 3}) == ["slots: 0", "slots before: 3"]


def test_a_refused_request_is_named_where_nothing_else_says_what_was_refused() -> None:
    assert in_words({"reason": "no", **REQUEST}) == ["reason: no", "request: POST /dags/{dag_id}/clear"]
    assert in_words({"reason": "no", "would_have": "cleared tasks", **REQUEST}) == [
        "would have: cleared tasks",
        "reason: no",
    ]
