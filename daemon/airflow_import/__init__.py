"""`tidegate import-airflow`: DAG files of Airflow 2 and 3 as DAG files of Tidegate.

`source` reads a file and executes nothing of it. `statements` goes through it statement by statement, and `expressions` through
their values; `dags`, `tasks`, `functions`, `values` and `schedules` give what Airflow names its equivalent.
`layout` writes the result.
Each statement and each keyword is kept, translated, or left out with an entry of `report`.
"""
