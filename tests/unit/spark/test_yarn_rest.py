"""Applications on YARN over the REST API of a scripted ResourceManager: which are ended, and what proves it."""

import getpass
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.scripted_yarn import ScriptedYarn, scripted_yarn
from tidegate.daemon.spark.runner import yarn_rest as rest
from tidegate.daemon.spark.runner.yarn_rest import RestError, addresses, end

WAITS, OTHER = ("application_1_0001", "tidegate-1"), ("application_1_0002", "tidegate-2")
USER = "ops"


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedYarn]:
    monkeypatch.setattr(rest, "POLL_S", 0.01)
    with scripted_yarn() as scripted:
        scripted.applications |= {WAITS: "ACCEPTED", OTHER: "RUNNING"}
        yield scripted


@pytest.mark.parametrize("looks", [0, 3])
def test_what_has_the_stamp_alone_is_killed_and_has_ended_when_yarn_says_so(yarn: ScriptedYarn, looks: int) -> None:
    yarn.looks = looks

    end([yarn.address], ["tidegate-1"], USER, 5.0)

    assert yarn.applications == {WAITS: "KILLED", OTHER: "RUNNING"}
    kills = [request for request in yarn.requests if request.endswith("KILLED")]
    assert kills == ["/ws/v1/cluster/apps/application_1_0001/state?user.name=ops KILLED"]


def test_without_an_application_the_active_resource_manager_alone_proves_the_end(yarn: ScriptedYarn) -> None:
    end([yarn.address], ["tidegate-9"], USER, 5.0)

    yarn.state = "INITIALIZING"
    with pytest.raises(RestError, match=r"^http://.*: its state is INITIALIZING$"):
        end([yarn.address], ["tidegate-9"], USER, 5.0)


def test_the_active_one_of_two_is_found(yarn: ScriptedYarn) -> None:
    with scripted_yarn() as standby:
        standby.state = "STANDBY"

        end([standby.address, yarn.address], ["tidegate-1"], USER, 5.0)

    assert yarn.applications[WAITS] == "KILLED"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([401], "HTTP 401 Unauthorized"),
        (['{"clusterInfo": {"haState": "ACTIVE"}}', 403], "HTTP 403 Forbidden"),
        (["no json"], "it does not answer as a ResourceManager"),
        (["[]"], "it does not answer as a ResourceManager"),
        (['{"clusterInfo": {"haState": "ACTIVE"}}', "{}"], "it does not answer as a ResourceManager"),
    ],
)
def test_another_answer_proves_nothing(yarn: ScriptedYarn, answers: list[int | str], problem: str) -> None:
    yarn.answers = answers

    with pytest.raises(RestError) as refused:
        end([yarn.address], ["tidegate-1"], USER, 5.0)

    assert str(refused.value) == f"{yarn.address}: {problem}"


def test_an_application_that_does_not_end_is_named(yarn: ScriptedYarn) -> None:
    yarn.looks = 10**6

    with pytest.raises(RestError, match=r": application_1_0001 is ACCEPTED$"):
        end([yarn.address], ["tidegate-1"], USER, 0.05)


def test_a_resource_manager_that_is_away_is_named() -> None:
    with pytest.raises(RestError, match=r"^http://127\.0\.0\.1:9: Connection refused$"):
        end(["http://127.0.0.1:9"], ["tidegate-1"], USER, 5.0)


@pytest.mark.parametrize(
    ("site", "conf", "found"),
    [
        ({"yarn.resourcemanager.hostname": "rm"}, {}, ["http://rm:8088"]),
        ({"yarn.resourcemanager.hostname": "rm", "yarn.http.policy": "HTTPS_ONLY"}, {}, ["https://rm:8090"]),
        ({"yarn.resourcemanager.webapp.address": "rm:1"}, {}, ["http://rm:1"]),
        ({"yarn.resourcemanager.hostname": "rm"}, {"spark.hadoop.yarn.resourcemanager.hostname": "other"}, ["http://other:8088"]),
        (
            {
                "yarn.resourcemanager.ha.enabled": "true",
                "yarn.resourcemanager.ha.rm-ids": "a, b",
                "yarn.resourcemanager.hostname.a": "rm-a",
                "yarn.resourcemanager.webapp.address.b": "${b.host}:1",
                "b.host": "rm-b",
            },
            {},
            ["http://rm-a:8088", "http://rm-b:1"],
        ),
        ({}, {}, []),
    ],
)
def test_addresses_are_those_of_yarn_and_of_spark(
    site: Mapping[str, str], conf: Mapping[str, str], found: list[str], tmp_path: Path
) -> None:
    properties = "".join(f"<property><name>{name}</name><value>{text}</value></property>" for name, text in site.items())
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{properties}</configuration>")

    assert addresses({"YARN_CONF_DIR": str(tmp_path)}, conf) == found


def test_without_an_address_that_is_said() -> None:
    with pytest.raises(RestError, match=r"^yarn-site\.xml names no ResourceManager$"):
        end(addresses({"HADOOP_CONF_DIR": "/nowhere"}, {}), ["tidegate-1"], USER, 5.0)


@pytest.mark.parametrize(("env", "user"), [({"HADOOP_USER_NAME": "etl"}, "etl"), ({}, None)])
def test_the_user_is_that_of_hadoop(env: Mapping[str, str], user: str | None) -> None:
    assert rest.user_of(env) == (user or getpass.getuser())
