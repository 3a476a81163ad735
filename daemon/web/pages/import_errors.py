"""The DAG files that cannot be read: where, since when and why."""

from tidegate.daemon.api.dags import ImportErrorList, import_errors
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.dag_pages import ImportErrorRow

SCREEN = Screen(Read("/import-errors", Right.VIEW, import_errors, ImportErrorList, Page[ImportErrorRow]), "import_errors.html")
