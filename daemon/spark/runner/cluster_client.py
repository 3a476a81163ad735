"""`python -m tidegate.daemon.spark.runner.cluster_client STAMP…`: ends what has one of the stamps on YARN or Kubernetes.

By the clients of Spark, in a JVM of its own, which takes the settings of `PYSPARK_SUBMIT_ARGS` as an application does: addresses,
certificates, Kerberos. Returns when all has ended.
"""

import sys
import time
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import launch_gateway

from tidegate.schemas.error import FATAL

POLL_S = 0.2
SELECTOR = "spark-app-selector"
AUTHENTICATE = "spark.kubernetes.authenticate"


def main() -> None:
    launch: Any = launch_gateway
    gateway = launch()
    try:
        conf = gateway.jvm.org.apache.spark.SparkConf()
        end = _end_on_kubernetes if conf.get("spark.master").startswith("k8s://") else _end_on_yarn
        end(gateway.jvm, conf, sys.argv[1:])
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - what a JVM raises has no type here; the runner reads the last line
        sys.exit(_said(error))
    finally:
        gateway.shutdown()


def _said(error: Exception) -> str:
    """The last cause in the JVM."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return " ".join(str(error if cause is None else cause.toString()).split())


def _end_on_yarn(jvm: Any, conf: Any, stamps: list[str]) -> None:
    yarn = jvm.org.apache.hadoop.yarn
    client = yarn.client.api.YarnClient.createYarnClient()
    client.init(yarn.conf.YarnConfiguration(jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)))
    client.start()
    tags, states = jvm.java.util.HashSet(), jvm.java.util.HashSet()
    for stamp in stamps:
        tags.add(stamp)
    for state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"):
        states.add(yarn.api.records.YarnApplicationState.valueOf(state))
    while left := client.getApplications(None, jvm.java.util.EnumSet.copyOf(states), tags):
        for application in left:
            client.killApplication(application.getApplicationId())  # returns when it has ended
        time.sleep(POLL_S)


def _end_on_kubernetes(jvm: Any, conf: Any, stamps: list[str]) -> None:
    """Delete the pods and config maps of the executors, and their volumes as far as the user may see them."""
    client, namespace = _kubernetes(jvm, conf), conf.get("spark.kubernetes.namespace", "default")
    pods, maps, claims = client.pods(), client.configMaps(), client.persistentVolumeClaims()
    for stamp in stamps:
        found = [each.inNamespace(namespace).withLabel(SELECTOR, stamp) for each in (pods, maps)]
        for each in found:
            each.delete()
        while any(len(each.list().getItems()) for each in found):
            time.sleep(POLL_S)
        with suppress(Py4JError):  # a user who may not see volumes has created none
            claims.inNamespace(namespace).withLabel(SELECTOR, stamp).delete()


def _kubernetes(jvm: Any, conf: Any) -> Any:
    k8s, option = jvm.org.apache.spark.deploy.k8s, jvm.scala.Option
    kind = getattr(getattr(k8s, "SparkKubernetesClientFactory$ClientType$"), "MODULE$").Driver()
    address, namespace = conf.get("spark.master").removeprefix("k8s://"), conf.get("spark.kubernetes.namespace", "default")
    factory = k8s.SparkKubernetesClientFactory
    return factory.createKubernetesClient(address, option.apply(namespace), AUTHENTICATE, kind, conf, option.empty())


if __name__ == "__main__":
    main()
