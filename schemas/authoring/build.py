"""Running a DAG file."""

from tidegate.schemas.authoring.dag import Dag, collect_dags


def build(source: str, filename: str) -> tuple[Dag, ...]:
    """Run a DAG file and return its DAGs, checked, in the order they were built.

    A DAG belongs to the file whose top-level code builds it: importing another DAG file does not add that file's DAGs.
    Raises DagError, and every exception that the file itself raises.
    """
    code = compile(source, filename, "exec", dont_inherit=True)
    stem = filename.rpartition("/")[2].removesuffix(".py")
    with collect_dags(filename) as dags:
        exec(code, {"__name__": f"dagfile.{stem}", "__file__": filename})  # noqa: S102 - what a DAG file is for
    for dag in dags.values():
        dag.spec()
    return tuple(dags.values())
