"""The installation: what is wrong with it, its daemons, duties, relay, schema and tables."""

from tidegate.daemon.api.installation import show_system
from tidegate.daemon.gateway.endpoint import Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.system import System
from tidegate.daemon.web.screen import Screen

SCREEN = Screen(Read("/system", Right.VIEW, show_system, Params, System), "system.html")
