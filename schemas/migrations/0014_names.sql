-- Names of what several statements ask. Postgres puts each function into the statement, so indexes serve them as before.

-- An instance of a mapped task has an index from 1048576 on: as `element_index` of schemas/graph.py.
CREATE FUNCTION is_task(task_index integer) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN task_index BETWEEN 0 AND 1048575;

-- The element that an instance of a mapped task works on; NULL for other instances.
CREATE FUNCTION map_index(task_index integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN task_index >= 1048576 THEN (task_index - 1048576) % 16384 END;

-- The position of its task in the version; below 0 for a removed task.
CREATE FUNCTION task_position(task_index integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN task_index < 1048576 THEN task_index ELSE (task_index - 1048576) / 16384 END;

-- The name of an instance in its run: `load`, or `load[3]` for an element of a mapped task.
CREATE FUNCTION instance_name(task_id text, task_index integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN task_id || CASE WHEN task_index < 1048576 THEN '' ELSE '[' || (task_index - 1048576) % 16384 || ']' END;

-- Whether a backfill has not ended: the predicate of the index backfill_active.
CREATE FUNCTION backfill_is_active(state backfill_state) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN state NOT IN ('cancelled', 'success', 'failed');
