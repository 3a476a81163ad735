"""What Airflow names, and what Tidegate has for it: the tables of the import. `from-airflow.md` shows them to people."""

from collections.abc import Mapping

from tidegate.schemas.dag import TriggerRule, WeightRule

SAME_TASK_OPTIONS = frozenset(
    {
        *("retries", "pool", "pool_slots", "priority_weight", "max_active_tis_per_dag", "max_active_tis_per_dagrun"),
        *("depends_on_past", "wait_for_downstream", "ignore_first_depends_on_past"),
    }
)
DURATION_OPTIONS = frozenset({"retry_delay", "max_retry_delay", "execution_timeout"})
MOMENT_OPTIONS = frozenset({"start_date", "end_date"})
RENAMED_OPTIONS: Mapping[str, str] = {"task_concurrency": "max_active_tis_per_dag"}

SAME_DAG_OPTIONS = frozenset(
    {"max_active_runs", "max_active_tasks", "max_consecutive_failed_dag_runs", "fail_fast", "paused", "description", "tags"}
)
RENAMED_DAG_OPTIONS: Mapping[str, str] = {
    "concurrency": "max_active_tasks",
    "fail_stop": "fail_fast",
    "is_paused_upon_creation": "paused",
}

WITHOUT_EFFECT: Mapping[str, frozenset[object]] = {
    **dict.fromkeys(("cwd", "env", "env_vars", "conf", "application_args"), frozenset({None})),
    **dict.fromkeys(("jars", "packages", "exclude_packages", "repositories", "py_files", "files", "archives"), frozenset({None})),
    **dict.fromkeys(("executor_memory", "executor_cores", "num_executors", "total_executor_cores"), frozenset({None})),
    **dict.fromkeys(("driver_memory", "queue", "yarn_queue", "principal", "keytab"), frozenset({None})),
    "email_on_failure": frozenset({False}),
    "email_on_retry": frozenset({False}),
    "provide_context": frozenset({True, False}),
    "multiple_outputs": frozenset({True, False}),
    "append_env": frozenset({True}),
    "skip_on_exit_code": frozenset({None}),
    "inherit_env": frozenset({True}),
    "deploy_mode": frozenset({"client"}),
    "verbose": frozenset({False}),
    "prefix_group_id": frozenset({True}),
    "ignore_downstream_trigger_rules": frozenset({True}),
    "expect_airflow": frozenset({True, False}),
    "expect_pendulum": frozenset({True, False}),
    "use_dill": frozenset({True, False}),
    "serializer": frozenset({"pickle", "cloudpickle", "dill"}),
    "is_paused_upon_creation": frozenset({False}),
}
"""Keywords whose value says what Tidegate does anyway."""

NONE_IS_DEFAULT = frozenset(
    {
        *SAME_TASK_OPTIONS,
        *DURATION_OPTIONS,
        *MOMENT_OPTIONS,
        *SAME_DAG_OPTIONS,
        *RENAMED_DAG_OPTIONS,
        *("trigger_rule", "owner", "params", "doc_md", "dagrun_timeout"),
        *("on_failure_callback", "on_success_callback", "on_retry_callback"),
    }
)
"""Keywords for which None says nothing."""

RECEIVERS = frozenset({"on_failure", "on_retry"})

TRIGGER_RULES: Mapping[str, str] = {
    **{rule.value: rule.value for rule in TriggerRule},
    "dummy": "always",
    "none_failed_or_skipped": "none_failed_min_one_success",
}
WEIGHT_RULES: Mapping[str, str] = {rule.value: rule.value for rule in WeightRule}

_CALLBACK = "write a function of one CallbackContext, or Webhook(…) or Email(…), and pass it as {}="
_CLUSTER = "enter the cluster in TIDEGATE_SPARK_CLUSTERS, and write cluster= with its name"
_READERS = "Tidegate has no web form for it"
OPTION_HINTS: Mapping[str, tuple[str, str]] = {
    "owner": ("tasks have no owner", "write it into tags of the DAG"),
    "email": ("addresses belong to the event that they are about", "write on_failure=Email(…)"),
    "email_on_failure": ("mails are receivers of an event", "write on_failure=Email(…)"),
    "email_on_retry": ("mails are receivers of an event", "write on_retry=Email(…)"),
    "on_failure_callback": ("Airflow passes a context dict", _CALLBACK.format("on_failure")),
    "on_success_callback": ("Airflow passes a context dict", _CALLBACK.format("on_success")),
    "on_retry_callback": ("Airflow passes a context dict", _CALLBACK.format("on_retry")),
    "on_execute_callback": ("a task has no event for its start", "follow task states with tidegate.events"),
    "on_skipped_callback": ("a skip is no event for receivers", "follow task states with tidegate.events"),
    "sla": ("Tidegate has deadlines", "write deadlines=[Deadline(name, after=…)] and on_deadline="),
    "sla_miss_callback": ("Tidegate has deadlines", _CALLBACK.format("on_deadline")),
    "deadline": ("its reference and callback differ", "write deadlines=[Deadline(name, after=…)] and on_deadline="),
    "queue": ("tasks go to a backend by their kind, not to a queue", "leave it out"),
    "executor": ("tasks go to a backend by their kind", "leave it out"),
    "executor_config": ("tasks go to a backend by their kind", "write the memory and the processors as resources="),
    "resources": (
        "the resources of a task in Tidegate are limits, and a try that uses more memory fails",
        "write resources={'memory': '2g', 'cpus': 1.5}",
    ),
    "run_as_user": ("tasks run as the user of the runner", "run a runner of that user"),
    "inlets": ("inputs of a task have no effect in Tidegate", "name the datasets in the schedule"),
    "doc_md": ("texts for readers are the description of the DAG", "write description=, or a comment"),
    "doc": ("texts for readers are the description of the DAG", "write description=, or a comment"),
    "do_xcom_push": ("the result of a function is always recorded", "return None"),
    "params": ("parameters belong to the DAG", "write them into params= of the DAG"),
    "template_searchpath": ("templates are not read from files", "read the text with Path(…).read_text()"),
    "user_defined_macros": ("templates know the names of the run only", "compute the value in a function task"),
    "user_defined_filters": ("templates have the filters of Jinja only", "compute the value in a function task"),
    "render_template_as_native_obj": ("templates give texts", "read run.params in a function task"),
    "access_control": ("a DAG has no permissions of its own", "see daemon/docs/security.md"),
    "default_view": (_READERS, "leave it out"),
    "orientation": (_READERS, "leave it out"),
    "dag_display_name": ("readers see the id", "write description="),
    "task_display_name": ("readers see the id", "choose a task_id that speaks"),
    "owner_links": (_READERS, "leave it out"),
    "tooltip": (_READERS, "leave it out"),
    "ui_color": (_READERS, "leave it out"),
    "ui_fgcolor": (_READERS, "leave it out"),
    "prefix_group_id": ("ids of tasks always begin with their group", "leave it out, and name tasks by their new ids"),
    "conn_id": ("there are no connections: without cluster= a task runs on the default cluster", _CLUSTER),
    "java_class": ("an application is started by its file", "name the main class in the manifest of the JAR"),
    "master": ("a task names its cluster", _CLUSTER),
    "deploy_mode": (
        "the daemon could neither follow nor end a driver inside of the cluster",
        "leave deploy_mode= out: the driver runs on the host of the daemon",
    ),
    "docker_conn_id": ("the login at a registry is that of Docker on the host", "log in there with `docker login`"),
    "edge_modifier": ("links have no labels", "write a comment"),
    "skip_on_exit_code": ("every exit code but 0 is a failure", "raise SkipTask in a function task that runs the program"),
    "cwd": ("a command starts in the DAG folder, or in cwd= below it", "begin the command with `cd DIR && `"),
    "parameters": ("a statement takes templates only", "write {{ params.name }} into the statement"),
    "env": ("variables belong to the tasks that need them", "write env= at each of them"),
    "env_vars": ("variables belong to the tasks that need them", "write env= at each of them"),
    "op_args": ("they are not a list in the file", "call the function in a task of its own"),
    "op_kwargs": ("they are not a dict in the file", "call the function in a task of its own"),
}
"""By keyword: why it has no equivalent, and what to do instead."""

DATABASE_HINT = ("there are no connections: the statement runs on Spark", "register the database as a catalog of Spark")
"""For the connection of an operator of SQL."""

UNKNOWN_OPTION = ("it has no equivalent", "leave it out, or see schemas/docs/writing-dags.md for the options there are")

EMPTY = frozenset({"EmptyOperator", "DummyOperator"})
BASH = frozenset({"BashOperator"})
PYTHON: Mapping[str, str] = {
    "PythonOperator": "task",
    "BranchPythonOperator": "branch",
    "ShortCircuitOperator": "short_circuit",
    "ExternalPythonOperator": "task",
    "BranchExternalPythonOperator": "branch",
}
SQL = frozenset(
    {
        *("SparkSqlOperator", "SQLExecuteQueryOperator", "SqliteOperator", "PostgresOperator", "MySqlOperator", "HiveOperator"),
        *("MsSqlOperator", "OracleOperator", "TrinoOperator", "PrestoOperator", "JdbcOperator", "SnowflakeOperator"),
        *("DatabricksSqlOperator",),
    }
)
SPARK_SQL = frozenset({"SparkSqlOperator"})
SUBMIT = frozenset({"SparkSubmitOperator"})

UNKNOWN = "unknown"
"""The kind of a decorator whose tasks have no equivalent."""

DECORATORS: Mapping[str, str] = {
    "task": "task",
    "task.python": "task",
    "task.pyspark": "task",
    "task.branch": "branch",
    "task.external_python": "task",
    "task.branch_external_python": "branch",
    "task.short_circuit": "short_circuit",
    "task.bash": "bash",
    "setup": "task",
    "teardown": "task",
}

SPARK_CONF: Mapping[str, str] = {
    "name": "spark.app.name",
    "executor_memory": "spark.executor.memory",
    "executor_cores": "spark.executor.cores",
    "num_executors": "spark.executor.instances",
    "total_executor_cores": "spark.cores.max",
    "driver_memory": "spark.driver.memory",
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
    "exclude_packages": "spark.jars.excludes",
    "repositories": "spark.jars.repositories",
    "py_files": "spark.submit.pyFiles",
    "files": "spark.files",
    "archives": "spark.archives",
    "queue": "spark.yarn.queue",
    "yarn_queue": "spark.yarn.queue",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""By keyword of SparkSubmitOperator, the setting of Spark that it stands for."""

REFUSED = "leave it out, or ask an operator to set it"
REFUSED_CONF: Mapping[str, str] = {
    "spark.app.name": "leave it out: Spark shows the DAG and the task",
    "spark.master": _CLUSTER,
    "spark.submit.deployMode": OPTION_HINTS["deploy_mode"][1],
}
"""By setting of Spark that the daemon decides, what to do instead."""

_WAITING = "Tidegate reacts instead of polling"
_BY_EVENT = "publish a dataset event when the data has arrived, and name the dataset in the schedule"
OPERATOR_HINTS: Mapping[str, tuple[str, str]] = {
    "TriggerDagRunOperator": ("DAGs start each other by datasets", "give the task an outlet that the other DAG's schedule names"),
    "ExternalTaskSensor": ("DAGs wait for each other by datasets", "give the other task an outlet, and name it in the schedule"),
    "ExternalTaskMarker": ("DAGs wait for each other by datasets", "use `tidegate runs clear` on both DAGs"),
    "LatestOnlyOperator": ("missed runs are an option of the DAG", 'write missed="latest" without catchup'),
    "BranchDayOfWeekOperator": ("branches are functions", "return follow(…) by run.logical_date in a function task"),
    "BranchDateTimeOperator": ("branches are functions", "return follow(…) by run.logical_date in a function task"),
    "BranchSQLOperator": ("branches are functions", "return follow(…) by spark.sql(…) in a function task"),
    "SubDagOperator": ("a DAG has no DAGs inside", "write a group: with dag.group(…)"),
    "EmailOperator": ("mails are receivers of an event", "write on_success=Email(…) at the task or DAG before it"),
    "HttpOperator": ("Tidegate has no HTTP task", "send the request in a function task"),
    "SimpleHttpOperator": ("Tidegate has no HTTP task", "send the request in a function task"),
    "PythonVirtualenvOperator": (
        "a task makes no environment",
        "make it on the hosts, and write python= with the path of its interpreter at a function task",
    ),
    "SSHOperator": ("Tidegate has no remote shell", "run `ssh` with dag.command"),
    "FileSensor": (_WAITING, _BY_EVENT),
    "Variable": ("Tidegate has no variables", "use params of the DAG, or env= of the task"),
    "Connection": ("Tidegate has no connections", "use the settings of Spark, or env= of the task with Secret(…)"),
    "BaseHook": ("Tidegate has no connections and hooks", "use the settings of Spark, or a client library in the function"),
    "Label": ("links have no labels", "write a comment"),
    "DatasetAlias": ("a task names its outlets in the file", "write the dataset, or wait for a DatasetPattern"),
    "AssetAlias": ("a task names its outlets in the file", "write the dataset, or wait for a DatasetPattern"),
    "AssetWatcher": ("events come from Kafka", "publish an event with tidegate.events"),
    "get_current_context": ("a function gets its Run as an argument", "use run"),
    "days_ago": ("a start that moves with the clock makes no schedule", "write start_date=datetime(…, tzinfo=UTC)"),
    "AirflowSkipException": ("the exception of Airflow is not there", "raise tidegate.SkipTask"),
    "AirflowFailException": ("the exception of Airflow is not there", "raise an exception; retries=0 prevents further tries"),
}
_NO_OPERATOR = ("it has no equivalent", "do the work in a function task, a command or a Spark application")


def operator_hint(class_name: str) -> tuple[str, str]:
    """Why an operator, or another name of Airflow, has no equivalent, and what to do instead."""
    root = class_name.split(".", maxsplit=1)[0]
    if root in OPERATOR_HINTS:
        return OPERATOR_HINTS[root]
    if class_name.endswith(("Sensor", "SensorAsync", "Trigger")) or class_name.startswith("task.sensor"):
        return _WAITING, _BY_EVENT
    if class_name.endswith("Hook"):
        return OPERATOR_HINTS["BaseHook"]
    return _NO_OPERATOR


def parameter_hint(key: str) -> tuple[str, str]:
    """What became of a variable, and what to do about it."""
    return "the task reads it from the parameters of its run", f'write params={{"{key}": …}} of the DAG'


CONTEXT: Mapping[str, str] = {
    **{
        same: same
        for same in (
            *("ds", "ts", "run_id", "dag_id", "task_id", "params", "logical_date", "map_index", "try_number"),
            *("data_interval_start", "data_interval_end", "run_after"),
        )
    },
    "execution_date": "logical_date",
}
"""By name in the context of Airflow, the attribute of `Run`."""

COMPUTED_CONTEXT: Mapping[str, str] = {
    "ds_nodash": 'run.ds.replace("-", "")',
    "ts_nodash": 'run.logical_date.strftime("%Y%m%dT%H%M%S")',
}
"""By name in the context of Airflow, what it is made of."""

NOT_PASSED = frozenset({"dag_id", "task_id", "map_index", "run_after"})
"""Attributes of `Run` that Airflow passes to no parameter of their name."""

UNKNOWN_CONTEXT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *(
                "conn",
                "var",
                "macros",
                "exception",
                "reason",
                "expanded_ti_count",
                "map_index_template",
                "start_date",
                "test_mode",
            ),
            *("inlets", "outlets", "inlet_events", "outlet_events", "triggering_dataset_events", "triggering_asset_events"),
            *("next_ds", "next_ds_nodash", "next_execution_date", "prev_ds", "prev_ds_nodash", "prev_execution_date"),
            *("prev_execution_date_success", "prev_start_date_success", "prev_end_date_success"),
            *("prev_data_interval_start_success", "prev_data_interval_end_success", "task_instance_key_str"),
            *(
                "task_reschedule_count",
                "templates_dict",
                "tomorrow_ds",
                "tomorrow_ds_nodash",
                "yesterday_ds",
                "yesterday_ds_nodash",
            ),
            *("ts_nodash_with_tz",),
        ),
        "see the attributes of run in schemas/docs/writing-dags.md",
    ),
    **dict.fromkeys(("ti", "task_instance"), "read results of upstream tasks from run.results, and return the own one"),
    "dag_run": "use run.params, run.run_id and run.events",
    "dag": "use run.dag_id",
    "task": "use run.task_id",
    "conf": "use run.params",
}
"""By name in the context of Airflow, what to do instead where a run does not have it."""
