"""What `make sql-mutants` changes, and that each explained mutant exists."""

import re

import pytest

from tests.sql_mutants.explained import explanations
from tests.sql_mutants.mutations import all_mutants, mutants_of


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        pytest.param("SELECT a FROM t -- ORDER BY a, for the owner = $1", {}, id="a remark is none of its parts"),
        pytest.param(
            "SELECT a FROM t ORDER BY a LIMIT 1",
            {"ORDER BY a 1": "SELECT a FROM t ORDER BY a DESC LIMIT 1"},
            id="an order",
        ),
        pytest.param(
            "SELECT a FROM t ORDER BY f(a, b) DESC, c NULLS FIRST",
            {"ORDER BY f(a, b) DESC, c NULLS FIRST 1": "SELECT a FROM t ORDER BY f(a, b), c DESC NULLS LAST"},
            id="an order of several keys",
        ),
        pytest.param(
            "INSERT INTO t SELECT a FROM s ORDER BY a ON CONFLICT (a) DO NOTHING",
            {"ORDER BY a 1": "INSERT INTO t SELECT a FROM s ORDER BY a DESC ON CONFLICT (a) DO NOTHING"},
            id="an order before a conflict",
        ),
        pytest.param(
            "SELECT a, (SELECT max(b ORDER BY b) FROM s) FROM t ORDER BY b",
            {
                "ORDER BY b 1": "SELECT a, (SELECT max(b ORDER BY b DESC) FROM s) FROM t ORDER BY b",
                "ORDER BY b 2": "SELECT a, (SELECT max(b ORDER BY b) FROM s) FROM t ORDER BY b DESC",
            },
            id="equal parts have numbers",
        ),
        pytest.param(
            "SELECT a FROM t FOR NO KEY UPDATE OF t",
            {"FOR NO KEY UPDATE OF t 1": "SELECT a FROM t"},
            id="a lock",
        ),
        pytest.param(
            "SELECT a FROM t\nFOR UPDATE SKIP LOCKED",
            {"SKIP LOCKED 1": "SELECT a FROM t\nFOR UPDATE", "FOR UPDATE SKIP LOCKED 1": "SELECT a FROM t"},
            id="a lock that skips",
        ),
        pytest.param(
            "UPDATE t SET a = 1 WHERE b = $1 AND owner = $2 AND state = 'open'",
            {"owner = $2 1": "UPDATE t SET a = 1 WHERE b = $1 AND (owner = $2 OR true) AND state = 'open'"},
            id="a comparison of an owner; the setting of one is none",
        ),
        pytest.param(
            "UPDATE t SET owner = $1 FROM s WHERE (t.key, t.epoch) = (s.key, s.epoch)",
            {"(t.key, t.epoch) = (s.key, s.epoch) 1": "UPDATE t SET owner = $1 FROM s WHERE (t.key) = (s.key)"},
            id="rows are compared without the epoch",
        ),
    ],
)
def test_the_mutants_of_a_statement(sql: str, changed: dict[str, str]) -> None:
    mutants = {f"{mutant.part} {mutant.number}": re.sub(r" +", " ", mutant.sql) for mutant in mutants_of("t.s", sql)}

    assert mutants == changed


def test_a_line_without_a_reason_is_refused() -> None:
    assert explanations("# a comment\n\nt.s 1: ORDER BY a  # Python sorts\n") == {"t.s 1: ORDER BY a": "Python sorts"}
    for line in ("t.s 1: ORDER BY a", "t.s 1: ORDER BY a  # "):
        with pytest.raises(ValueError, match=r"explained\.txt, line 2: expected"):
            explanations(f"# a comment\n{line}\n")


def test_each_explained_mutant_exists() -> None:
    names = [mutant.name for mutant in all_mutants()]

    assert len(names) == len(set(names))
    assert explanations().keys() - set(names) == set()
