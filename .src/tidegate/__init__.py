"""Tidegate: event-driven scheduling of Spark pipelines.

The names that DAG files import:

* pipelines: `Dag`, `Dataset`, `Param` (start with `tidegate.schemas.authoring.dag`)
* conditions over datasets: `DatasetPattern`, `n_of`, `Timed`, `InputDeadline`
* schedules by time: `cron`, `every`, `DatasetOrTime`, `DatasetsAndTime`
* secrets of the host as values of `env=` and `conf=`: `Secret`
* task functions: `Run`, their second argument, with its `ConsumedEvent`s and `OutletEvent`s; `follow`, `skip_rest` and `SkipTask` to end one
* deadlines and notifications: `Deadline`, `Email`, `Webhook`, `CallbackContext`
* annotations and tests: `Event`, `Task`, `Choice`, `TriggerRule`, `WeightRule`, `DagError`

Programs that publish events or follow runs import `tidegate.events`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.schemas.authoring.names import *
    from tidegate.schemas.authoring.names import __all__


def __getattr__(name: str) -> Any:
    """The names are imported when one is asked for: most processes of Tidegate, such as those of tasks, need none."""
    from tidegate.schemas.authoring import names

    if name == "__all__" or name in names.__all__:
        return getattr(names, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
