"""Publishes the outcome of an attempt to Kafka. Without Kafka nothing is lost: daemons also read the spool."""

import logging

import anyio

from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.spool import Job, Outcome
from tidegate.events.publisher import Publisher
from tidegate.schemas.error import TidegateError

SOURCE = "tidegate/submission"
WITHIN_S = 10.0

log = logging.getLogger("tidegate")


def task_finished(job: Job, outcome: Outcome) -> bool:
    """Whether the event was acknowledged. Its id is the submission's, so duplicates have no effect. Callbacks have no event."""
    return not isinstance(job.spec.task, CallbackTask) and anyio.run(_publish, job, outcome)


async def _publish(job: Job, outcome: Outcome) -> bool:
    run = job.spec.run
    publisher = Publisher(job.kafka_servers, source=SOURCE, topic_prefix=job.topic_prefix, timeout_s=WITHIN_S)
    try:
        with anyio.fail_after(WITHIN_S):
            async with publisher:
                await publisher.task_finished(
                    job.spec.submission_id,
                    outcome.outcome,
                    dag_id=run.dag_id,
                    run_id=run.run_id,
                    event_id=str(job.spec.submission_id),
                    **outcome.facts(),
                )
    except (TidegateError, TimeoutError) as error:
        log.debug("the outcome was not published: %s", error)
        return False
    return True
