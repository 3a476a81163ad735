"""The backends that run tasks, and the servers that daemons cannot reach."""

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.clusters import Clusters, read_clusters
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


async def read(db: Db, _call: Call[Params]) -> Clusters:
    return await read_clusters(db)


SCREEN = Screen(Read("/clusters", Right.VIEW, read, Params, Clusters), "clusters.html")
