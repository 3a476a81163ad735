"""Counts what `import-airflow` makes of folders of real Airflow files: `python -m tests.airflow_survey FOLDER`."""
