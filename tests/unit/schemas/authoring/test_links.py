"""The order of tasks, as DAG files write it: links, groups, lists, setups and teardowns."""

from collections.abc import Callable

import pytest

from tidegate import Dag, DagError, Task


def upstream(dag: Dag) -> dict[str, tuple[str, ...]]:
    return {task.task_id: task.upstream for task in dag.spec().tasks}


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (lambda t: t("a") >> t("b") >> t("c"), {"a": (), "b": ("a",), "c": ("b",)}),
        (lambda t: t("c") << t("b") << t("a"), {"a": (), "b": ("a",), "c": ("b",)}),
        (lambda t: t("a") >> [t("b"), t("c")], {"a": (), "b": ("a",), "c": ("a",)}),
        (lambda t: [t("a"), t("b")] >> t("c"), {"a": (), "b": (), "c": ("a", "b")}),
        (lambda t: t("c") << [t("a"), t("b")], {"a": (), "b": (), "c": ("a", "b")}),
        (lambda t: [t("b"), t("c")] << t("a"), {"a": (), "b": ("a",), "c": ("a",)}),
        (lambda t: t("a") >> (t("b"), t("c")), {"a": (), "b": ("a",), "c": ("a",)}),
        (lambda t: (t("a") >> t("b"), t("a") >> t("b")), {"a": (), "b": ("a",), "c": ()}),
        (lambda t: t("a") >> [], {"a": (), "b": (), "c": ()}),
    ],
)
def test_shifts_put_tasks_in_order(link: Callable[[Callable[[str], Task]], object], expected: dict[str, tuple[str, ...]]) -> None:
    dag = Dag("d")
    tasks = {name: dag.empty(name) for name in "abc"}

    link(tasks.__getitem__)

    assert upstream(dag) == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (lambda x, g, z: [x, g] >> z, {"g.1": (), "g.2": ("g.1",), "x": (), "z": ("g.2", "x")}),
        (lambda x, g, z: z << (g, x), {"g.1": (), "g.2": ("g.1",), "x": (), "z": ("g.2", "x")}),
        (lambda x, g, z: z >> [x, g], {"g.1": ("z",), "g.2": ("g.1",), "x": ("z",), "z": ()}),
        (lambda x, g, z: [g, x] << z, {"g.1": ("z",), "g.2": ("g.1",), "x": ("z",), "z": ()}),
    ],
)
def test_lists_have_task_groups_as_well(link: Callable[..., object], expected: dict[str, tuple[str, ...]]) -> None:
    dag = Dag("d")
    x, z = dag.empty("x"), dag.empty("z")
    with dag.group("g") as group:
        dag.empty("1") >> dag.empty("2")

    link(x, group, z)

    assert {task_id: tuple(sorted(ids)) for task_id, ids in upstream(dag).items()} == expected


@pytest.mark.parametrize(
    "link",
    [
        lambda before, after: before >> after,
        lambda before, after: after << before,
        lambda before, after: [before] >> after,
        lambda before, after: [after] << before,
        lambda before, after: after.as_teardown(setups=before),
        lambda before, after: after.expand(over=before),
    ],
)
def test_a_link_knows_its_line(link: Callable[[Task, Task], object]) -> None:
    dag = Dag("d")
    before, after = dag.empty("before"), dag.command("after", ["true"])

    link(before, after)

    assert after.upstream == {"before": (__file__, link.__code__.co_firstlineno)}


def test_a_chain_of_lists_joins_every_link() -> None:
    dag = Dag("d")
    a, b, c, d = (dag.empty(name) for name in "abcd")

    a >> [b, c] >> d

    assert upstream(dag) == {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


@pytest.mark.parametrize(
    ("links", "last"),
    [
        (["make work", "work drop"], ["work"]),
        (["make work", "make other", "work drop", "other drop"], ["work", "other"]),
        (["make work", "work drop", "work other"], ["other"]),
        (["make work", "work drop", "drop clean"], ["work"]),
        (["make work", "work drop", "work clean"], ["work"]),
        (["make drop", "make clean"], ["drop", "clean"]),
    ],
)
def test_what_comes_after_a_group_waits_for_its_work_and_not_for_its_teardowns(links: list[str], last: list[str]) -> None:
    with Dag("d") as dag:
        with dag.group("g") as group:
            names = dict.fromkeys(name for link in links for name in link.split())
            tasks = {name: dag.empty(name) for name in names}
            for link in links:
                before, after = link.split()
                tasks[before] >> tasks[after]
            for name in names.keys() & {"drop", "clean"}:
                tasks[name].as_teardown(setups=tasks["make"])
        group >> dag.empty("report")

    assert sorted(upstream(dag)["report"]) == sorted(f"g.{name}" for name in last)


def test_the_tasks_of_a_group_have_its_name_before_theirs_and_are_linked_as_one() -> None:
    with Dag("d") as dag:
        with dag.group("outer") as outer:
            first = dag.empty("first")
            with dag.group("inner") as inner:
                dag.empty("deep")
            last = dag.empty("last")
            first >> inner >> last
        dag.empty("before") >> outer
        dag.empty("after") << outer

    groups = {task.task_id: task.group for task in dag.spec().tasks}
    assert groups == {
        "before": "",
        "outer.first": "outer",
        "outer.inner.deep": "outer.inner",
        "outer.last": "outer",
        "after": "",
    }
    assert upstream(dag) == {
        "before": (),
        "outer.first": ("before",),
        "outer.inner.deep": ("outer.first",),
        "outer.last": ("outer.inner.deep",),
        "after": ("outer.last",),
    }


def test_a_name_is_too_long_with_that_of_its_group() -> None:
    with Dag("d") as dag, dag.group("g" * 200):
        assert len(dag.empty("t" * 49).task_id) == 250
        with pytest.raises(DagError, match=r"^DAG 'd': task_id 'gggg.*: a name is 1 to 250 letters"):
            dag.empty("t" * 50)
        with (
            pytest.raises(DagError, match=r"^DAG 'd': group_id 'gggg.*: a name is 1 to 250 letters"),
            dag.group("h" * 50),
        ):
            pass


def test_a_group_ends_with_its_block_also_by_an_error() -> None:
    dag = Dag("d")
    with pytest.raises(ZeroDivisionError), dag.group("g"):
        raise ZeroDivisionError

    assert dag.empty("t").task_id == "t"


def test_a_mapped_task_comes_after_the_one_that_returns_its_list() -> None:
    dag = Dag("d")
    days = dag.command("days", ["days"])

    mapped = dag.command("load", ["load", "{{ item }}"]).expand(over=days)

    found = {task.task_id: (task.upstream, task.over) for task in dag.spec().tasks}
    assert mapped.task_id == "load"
    assert found == {"days": ((), None), "load": (("days",), "days")}


@pytest.mark.parametrize("fails_run", [False, True])
def test_a_teardown_comes_after_its_setups(*, fails_run: bool) -> None:
    dag = Dag("d")
    first, second = dag.empty("first"), dag.empty("second").as_setup()

    dag.empty("drop").as_teardown(setups=[first, second], on_failure_fail_dagrun=fails_run)

    *setups, drop = dag.spec().tasks
    assert [task.is_setup for task in setups] == [True, True]
    assert (drop.upstream, drop.teardown_of, drop.is_setup) == (("first", "second"), ("first", "second"), False)
    assert drop.on_failure_fail_run is fails_run


def test_a_failing_teardown_fails_no_run_by_default() -> None:
    dag = Dag("d")

    task = dag.empty("drop").as_teardown(setups=dag.empty("make"))

    assert task.spec.on_failure_fail_run is False
