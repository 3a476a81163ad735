"""What a daemon and `tidegate web` serve to Prometheus: their own counts, and the state of the installation."""
