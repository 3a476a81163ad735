"""Containers as commands: `docker run` for DockerOperator, `kubectl run` for KubernetesPodOperator."""

import ast
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from tidegate.daemon.airflow_import.arguments import Made, Options, has_no_effect, take, template
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import constant, items, name
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.texts import as_text, text_values
from tidegate.daemon.airflow_import.unsupported import leave_out_option
from tidegate.schemas.text import is_template

Flags = Mapping[str, str]

_DOCKER: Flags = {
    **dict.fromkeys(("network_mode",), "--network"),
    "working_dir": "--workdir",
    "user": "--user",
    "entrypoint": "--entrypoint",
    "mem_limit": "--memory",
    "cpus": "--cpus",
    "shm_size": "--shm-size",
    "container_name": "--name",
    "hostname": "--hostname",
    "platform": "--platform",
    "docker_url": "--host",
}
"""By keyword of DockerOperator, the flag with its value."""

_DOCKER_SWITCHES: Flags = {
    "privileged": "--privileged",
    "tty": "--tty",
    "force_pull": "--pull=always",
    "read_only": "--read-only",
}

_POD: Flags = {
    "namespace": "--namespace",
    "image_pull_policy": "--image-pull-policy",
    "cluster_context": "--context",
    "config_file": "--kubeconfig",
}
"""By keyword of KubernetesPodOperator, the flag with its value."""

_SAME: Mapping[str, frozenset[object]] = {
    **dict.fromkeys(("auto_remove", "mount_tmp_dir"), frozenset({True, False, "success", "force", "never"})),
    **dict.fromkeys(("xcom_all", "get_logs", "in_cluster", "reattach_on_restart", "deferrable"), frozenset({True, False})),
    "is_delete_operator_pod": frozenset({True}),
    "docker_url": frozenset({"unix://var/run/docker.sock", "unix:///var/run/docker.sock"}),
    "api_version": frozenset({"auto"}),
    "do_xcom_push": frozenset({False}),
    "on_finish_action": frozenset({"delete_pod"}),
    **dict.fromkeys((*_DOCKER_SWITCHES,), frozenset({False})),
}
"""Keywords that change nothing with these values: a container is removed when it has ended, and its output is the log."""

_CHANGES_THE_POD = frozenset(
    {
        *(
            "volumes",
            "volume_mounts",
            "secrets",
            "env_from",
            "configmaps",
            "init_containers",
            "full_pod_spec",
            "pod_template_file",
        ),
        *("pod_template_dict", "pod_runtime_info_envs"),
    }
)


def docker_task(context: Context, class_name: str, options: Options) -> Made:
    """`dag.command` with `docker run`. Raises LeftOutError without an image."""
    environment, rest = take(options, "environment")
    private, rest = take(rest, "private_environment")
    variables = [with_literals_of(context, value) for value in (environment, private) if value is not None]
    pairs = [(key, value) for one in variables for key, value in zip(one.keys, one.values, strict=True)]
    names = [part for key, _ in pairs for part in (constant("--env"), key or constant(""))]
    before, command, rest = docker_words(context, class_name, rest)
    merged = ast.Dict(keys=[key for key, _ in pairs], values=[value for _, value in pairs])
    own = [ast.keyword(arg="env", value=text_values(context, merged))] if pairs else []
    head = [*_texts("docker", "run", "--rm"), *names, *before]
    if command is None or isinstance(command, ast.List | ast.Tuple):
        return "command", [items(*head, *_words(context, command))], own, rest
    if isinstance(command, ast.Constant) and not is_template(str(command.value)):
        return "command", [items(*head, *_texts(*_split(command, str(command.value))))], own, rest
    return "command", [items(*_texts("bash", "-c"), _script(context, head, command))], own, rest


def docker_words(
    context: Context, class_name: str, options: Options
) -> tuple[list[ast.expr], ast.expr | None, list[ast.keyword]]:
    """The flags with the image, the command, and the other options."""
    image, rest = take(_effective(options), "image")
    command, rest = take(rest, "command")
    mounts, rest = take(rest, "mounts", "volumes")
    if image is None:
        raise left_out(name(class_name), "it has no image", "write the image")
    flags, rest = _flags(context, rest, _DOCKER)
    switches = [constant(_DOCKER_SWITCHES[str(option.arg)]) for option in rest if _is_on(option)]
    mounted = list(_mounts(context, mounts)) if mounts is not None else []
    held = context.facts.constants.get(command.id, command) if isinstance(command, ast.Name) and not context.loops else command
    is_literal = isinstance(held, ast.List | ast.Tuple | ast.Constant)
    words = [*flags, *switches, *mounted, as_text(context, image)]
    return words, held if is_literal else command, [option for option in rest if not _is_on(option)]


def _script(context: Context, head: Sequence[ast.expr], command: ast.expr) -> ast.expr:
    """A line of a shell, which splits the command once it is rendered, as Docker does."""
    written = template(context, command)
    texts = [part.value for part in ast.walk(written) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if any(_SHELL.search(re.sub(r"'[^']*'", "", _EXPRESSION.sub("", text))) for text in texts):
        raise left_out(command, "a shell would read signs in it, and Docker does not", "write a list of words")
    parts = [constant(shlex.quote(str(part.value))) if isinstance(part, ast.Constant) else part for part in head]
    spaced = [piece for part in parts for piece in (part, constant(" "))]
    return _joined([*spaced, *(written.values if isinstance(written, ast.JoinedStr) else [written])])


_SHELL = re.compile(r"[$;&|<>*?`()#~!\\]")
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def pod_task(context: Context, class_name: str, options: Options) -> Made:
    """`dag.command` with `kubectl run`, which waits for the pod and ends as it does. Raises LeftOutError."""
    image, rest = take(_effective(options), "image")
    pod_name, rest = take(rest, "name")
    program, rest = take(rest, "cmds")
    arguments, rest = take(rest, "arguments")
    variables, rest = take(rest, "env_vars")
    labels, rest = take(rest, "labels")
    if image is None:
        raise left_out(name(class_name), "it has no image", "write the image")
    changing = next((option for option in rest if option.arg in _CHANGES_THE_POD and not _is_empty(option.value)), None)
    if changing is not None:
        raise left_out(changing.value, f"kubectl run has no {changing.arg}", "write the pod as a file for kubectl apply")
    for option in (option for option in rest if option.arg in _CHANGES_THE_POD or option.arg in _LIMITS):
        leave_out_option(context, option, class_name)
    rest = [option for option in rest if option.arg not in _CHANGES_THE_POD and option.arg not in _LIMITS]
    flags, rest = _flags(context, rest, _POD)
    pairs = [*_pairs(context, "--env", variables), *_pairs(context, "--labels", labels)]
    words = [*_words(context, program), *_words(context, arguments)] if program is not None or arguments is not None else []
    head = [*_texts("kubectl", "run"), _pod_name(context, pod_name), *_texts("--rm", "--attach", "--quiet", "--restart=Never")]
    after = [*(_texts("--command") if program is not None else []), *(_texts("--") if words else []), *words]
    return "command", [items(*head, constant("--image"), template(context, image), *flags, *pairs, *after)], [], rest


_LIMITS = frozenset(
    {
        *("container_resources", "resources", "affinity", "tolerations", "node_selector", "node_selectors", "security_context"),
        *(
            "service_account_name",
            "image_pull_secrets",
            "annotations",
            "hostnetwork",
            "startup_timeout_seconds",
            "random_name_suffix",
        ),
        *(
            "log_events_on_failure",
            "kubernetes_conn_id",
            "priority_class_name",
            "startup_check_interval_seconds",
            "schedulername",
        ),
        *("is_delete_operator_pod", "on_finish_action", "do_xcom_push", "base_container_name", "poll_interval"),
    }
)
"""What a pod has beside its work. `kubectl run` has no flag for it, and the list names each."""


def with_literals_of(context: Context, node: ast.expr) -> ast.Dict:
    """The dict of variables whose names the file says. Raises LeftOutError for another value."""
    held = context.facts.constants.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(held, ast.Dict) and all(isinstance(key, ast.Constant) for key in held.keys):
        return held
    raise left_out(node, "the file does not say which variables it holds", "write a dict of variables")


def _effective(options: Options) -> list[ast.keyword]:
    """The options without what changes nothing."""
    return [
        option
        for option in options
        if not has_no_effect(option)
        and not (
            isinstance(option.value, ast.Constant)
            and (option.value.value is None or option.value.value in _SAME.get(option.arg or "", frozenset()))
        )
    ]


def _flags(context: Context, options: Options, known: Flags) -> tuple[list[ast.expr], list[ast.keyword]]:
    flags = [
        part
        for option in options
        if option.arg in known
        for part in (constant(known[str(option.arg)]), as_text(context, option.value))
    ]
    return flags, [option for option in options if option.arg not in known]


def _is_on(option: ast.keyword) -> bool:
    return option.arg in _DOCKER_SWITCHES and isinstance(option.value, ast.Constant) and option.value.value is True


def _is_empty(node: ast.expr) -> bool:
    return (isinstance(node, ast.List | ast.Tuple) and not node.elts) or (isinstance(node, ast.Dict) and not node.keys)


def _texts(*words: str) -> list[ast.expr]:
    return [constant(word) for word in words]


def _pod_name(context: Context, node: ast.expr | None) -> ast.expr:
    """Names of pods are unique: Airflow adds a random suffix to them, and so does the template."""
    suffix = "-{{ range(10000, 99999) | random }}"
    written = template(context, node) if node is not None else constant("task")
    if isinstance(written, ast.Constant):
        return constant(f"{str(written.value).replace('_', '-').lower()}{suffix}")
    return ast.BinOp(left=written, op=ast.Add(), right=constant(suffix))


def _pairs(context: Context, flag: str, node: ast.expr | None) -> Iterator[ast.expr]:
    """A flag for each entry of a dict."""
    pairs = with_literals_of(context, node) if node is not None else ast.Dict(keys=[], values=[])
    for key, value in zip(pairs.keys, pairs.values, strict=True):
        yield constant(flag)
        written = as_text(context, value)
        known = isinstance(key, ast.Constant) and isinstance(written, ast.Constant)
        if known and isinstance(key, ast.Constant) and isinstance(written, ast.Constant):
            yield constant(f"{key.value!s}={written.value!s}")
        elif isinstance(key, ast.Constant):
            yield ast.BinOp(left=constant(f"{key.value!s}="), op=ast.Add(), right=written)


def _mounts(context: Context, node: ast.expr) -> Iterator[ast.expr]:
    """`Mount(source=, target=, type=)`, or `source:target` of older versions."""
    if not isinstance(node, ast.List | ast.Tuple):
        raise left_out(node, "the file does not say which folders it holds", "write a list of mounts")
    for element in node.elts:
        if isinstance(element, ast.Call):
            yield from _mount(context, element)
        else:
            yield constant("--volume")
            yield template(context, element)


def _mount(context: Context, node: ast.Call) -> Iterator[ast.expr]:
    given = {
        **dict(zip(("target", "source"), node.args, strict=False)),
        **{str(option.arg): option.value for option in node.keywords},
    }
    parts: list[ast.expr] = []
    for key in ("type", "source", "target"):
        value = template(context, given[key]) if key in given else constant("volume") if key == "type" else None
        if value is not None:
            parts += [constant(f"{',' if parts else ''}{key}="), value]
    if "read_only" in given:
        parts.append(constant(",readonly"))
    yield constant("--mount")
    yield _joined(parts)


def _joined(parts: Sequence[ast.expr]) -> ast.expr:
    """Texts and values as one text."""
    if all(isinstance(part, ast.Constant) for part in parts):
        return constant("".join(str(part.value) for part in parts if isinstance(part, ast.Constant)))
    flat = [value for part in parts for value in (part.values if isinstance(part, ast.JoinedStr) else [part])]
    whole = (ast.Constant, ast.FormattedValue)
    return ast.JoinedStr(
        values=[part if isinstance(part, whole) else ast.FormattedValue(value=part, conversion=-1) for part in flat]
    )


def _words(context: Context, node: ast.expr | None) -> list[ast.expr]:
    """The words of a command that is a list."""
    held = context.facts.constants.get(node.id, node) if isinstance(node, ast.Name) and not context.loops else node
    if held is None:
        return []
    if not isinstance(held, ast.List | ast.Tuple):
        return [ast.Starred(value=template(context, held), ctx=ast.Load())]
    return [as_text(context, element) for element in held.elts]


def _split(node: ast.expr, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise left_out(node, f"it has no words: {error}", "write a list of words") from None


MAKERS: Mapping[str, Callable[[Context, str, Options], Made]] = {
    **dict.fromkeys(("DockerOperator",), docker_task),
    **dict.fromkeys(("KubernetesPodOperator", "GKEStartPodOperator", "EksPodOperator"), pod_task),
}
