"""Containers as commands: the words that Docker and kubectl get are the words of the container in Airflow."""

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tidegate.schemas.authoring.build import build
from tidegate.schemas.dag import CommandTask

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.decorators import task
from airflow.providers.docker.operators.docker import DockerOperator
from airflow.providers.cncf.kubernetes.operators.kubernetes_pod import KubernetesPodOperator
from docker.types import Mount
TAG, ARGS = "1", "-v"
@task
def variables():
    return {"A": "1"}
with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
    """

DOCKER = "DockerOperator(task_id='t', image='etl:1', auto_remove='success', mount_tmp_dir=False, "
POD = "KubernetesPodOperator(task_id='t', name='etl', image='etl:1', "
RUN = ["docker", "run", "--rm"]
SUFFIX = "-{{ range(10000, 99999) | random }}"
KUBECTL = ["kubectl", "run", f"etl{SUFFIX}", "--rm", "--attach", "--quiet", "--restart=Never", "--image", "etl:1"]


@pytest.mark.parametrize(
    ("source", "argv", "env"),
    [
        (DOCKER + "command='load --all \"a b\"')", [*RUN, "etl:1", "load", "--all", "a b"], {}),
        (DOCKER + "command=['load', '{{ ds }}'])", [*RUN, "etl:1", "load", "{{ ds }}"], {}),
        (DOCKER + "command='load {{ ds }}')", ["bash", "-c", "docker run --rm etl:1 load {{ ds }}"], {}),
        (DOCKER + "command=f'load {ARGS}')", ["bash", "-c", "docker run --rm etl:1 load -v"], {}),
        (DOCKER + "environment={'A': '{{ ds }}', 'B': 2})",
         [*RUN, "--env", "A", "--env", "B", "etl:1"], {"A": "{{ ds }}", "B": "2"}),
        (DOCKER + "network_mode='host', tty=True)", [*RUN, "--network", "host", "--tty", "etl:1"], {}),
        (DOCKER + "mounts=[Mount(source='/a', target='/b', type='bind')])",
         [*RUN, "--mount", "type=bind,source=/a,target=/b", "etl:1"], {}),
        (DOCKER + "volumes=['/a:/b'])", [*RUN, "--volume", "/a:/b", "etl:1"], {}),
        (POD + "cmds=['load'], arguments=['--day', '{{ ds }}'])", [*KUBECTL, "--command", "--", "load", "--day", "{{ ds }}"], {}),
        (POD + "arguments=['x'], namespace='etl')", [*KUBECTL, "--namespace", "etl", "--", "x"], {}),
        (POD + "env_vars={'A': '1'}, is_delete_operator_pod=True)", [*KUBECTL, "--env", "A=1"], {}),
    ],
)  # fmt: skip
def test_a_container_is_a_command(source: str, argv: list[str], env: dict[str, str]) -> None:
    result = translated(HEAD + source)

    (dag,) = build(result.text, "file.py")
    (task,) = dag.spec().tasks
    assert isinstance(task, CommandTask)
    assert (list(task.argv), task.env) == (argv, env)
    assert [part.what for part in result.omissions if "Docker" in part.what or "Pod" in part.what] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (POD + "volumes=[1])", "KubernetesPodOperator 't'"),
        (DOCKER + "command='load {{ ds }} > x')", "DockerOperator 't'"),
        (DOCKER + "environment=[1])", "DockerOperator 't'"),
    ],
)
def test_a_container_that_a_command_would_change_is_left_out(source: str, what: str) -> None:
    result = translated(HEAD + source)

    assert what in [part.what for part in result.omissions]
    assert '["false"]' in result.text


def test_variables_that_a_task_returns_reach_the_container() -> None:
    result = translated(HEAD + DOCKER + "command=f'load {ARGS}', environment=variables())")

    (dag,) = build(result.text, "file.py")
    assert {(task.task_id, task.upstream) for task in dag.spec().tasks} == {("variables", ()), ("t", ("variables",))}
    assert 'variables = run.results["variables"]' in result.text
    assert '*shlex.split(f"load {ARGS}")' in result.text
