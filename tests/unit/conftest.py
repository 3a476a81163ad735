"""Property tests have no time limit: it would fail them on a busy machine, and a benchmark measures speed."""

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
