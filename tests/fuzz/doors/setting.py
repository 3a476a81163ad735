"""The environment of a daemon: settings, or an error that names the variable."""

from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.doors.door import Door, check
from tidegate.daemon.settings import Settings, SettingsError, read


def enter(environ: Mapping[str, str], _: Path) -> None:
    try:
        read({"TIDEGATE_POSTGRES_DSN": "postgresql://h/d", "TIDEGATE_KAFKA_SERVERS": "h:1", **environ})
    except SettingsError as error:
        check("TIDEGATE_" in str(error))


INPUTS = st.dictionaries(
    st.sampled_from([f"TIDEGATE_{name.upper()}" for name in Settings.__struct_fields__] + ["TIDEGATE_X"]),
    st.text(max_size=12) | st.sampled_from(["-1", "0", "1e400", "nan", "true", "9" * 40]),
    max_size=3,
)
DOOR = Door(INPUTS, enter, share=200)
