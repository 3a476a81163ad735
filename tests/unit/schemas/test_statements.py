"""Several statements as one."""

from tidegate.schemas.queries.sql import combined

INSERT = "INSERT INTO run SELECT $1, $2"
UPDATE = "UPDATE task SET state = $1 WHERE id = $2 AND run = $1"


def test_one_statement_stays_as_it_is() -> None:
    alone = combined((INSERT,), (2,))

    assert alone == INSERT


def test_of_several_all_but_the_last_are_parts_of_the_last() -> None:
    all_three = combined((INSERT, "DELETE FROM pool", UPDATE), (2, 0, 2))

    assert all_three.startswith(f"WITH part_0 AS (\n{INSERT}\n),\npart_1 AS (\nDELETE FROM pool\n)\nUPDATE task")


def test_their_arguments_follow_each_other() -> None:
    both = combined((INSERT, UPDATE), (2, 2))

    assert both.endswith("UPDATE task SET state = $3 WHERE id = $4 AND run = $3")
