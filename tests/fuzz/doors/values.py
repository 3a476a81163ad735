"""Values of JSON, and times at the edges, which several doors draw."""

from hypothesis import strategies as st

TIMES = st.sampled_from(
    [
        "2026-05-01T12:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "1899-12-31T23:59:59+14:00",
        "2200-01-01T00:00:01-14:00",
        "2026-02-30T00:00:00Z",
        "2026-05-01",
        "yesterday",
        "",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | TIMES
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)
