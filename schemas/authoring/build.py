"""Running a DAG file."""

from types import CodeType

from tidegate.schemas.authoring.dag import Dag, collect_dags


def build(source: str, filename: str) -> tuple[Dag, ...]:
    """Run a DAG file and return its DAGs, checked, in the order they were built.

    A DAG belongs to the file whose top-level code builds it: importing another DAG file does not add that file's DAGs.
    Raises DagError, and every exception that the file itself raises.
    """
    return build_code(compile(source, filename, "exec", dont_inherit=True), filename)


def build_code(code: CodeType, filename: str) -> tuple[Dag, ...]:
    """As `build`, of a file that is compiled already."""
    stem = filename.rpartition("/")[2].removesuffix(".py")
    with collect_dags(filename) as dags:
        exec(code, {"__name__": f"dagfile.{stem}", "__file__": filename})  # noqa: S102 - what a DAG file is for
    for dag in dags.values():
        dag.spec()
    return tuple(dags.values())
