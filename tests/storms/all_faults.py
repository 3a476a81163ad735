"""The seeded faults of all storms. It imports no storm, since the daemons of storms import it."""

from collections.abc import Callable, Mapping

from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.edits.faults import EDIT_FAULTS
from tests.storms.faults import FAULTS
from tests.storms.hostile.faults import HOSTILE_FAULTS
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.runners.faults import RUNNER_FAULTS

ALL_FAULTS: Mapping[str, Callable[[], None]] = {
    **FAULTS,
    **LIMIT_FAULTS,
    **CLOCK_FAULTS,
    **EDIT_FAULTS,
    **HOSTILE_FAULTS,
    **RUNNER_FAULTS,
}
