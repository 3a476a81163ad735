"""What must be true of backfills at any moment, as SQL that finds what contradicts it."""

MISCOUNTED_STAGES = "a stage whose counts are not those of its dates"

BROKEN = {
    "a date without a run or a reason": """
        SELECT backfill_id, ordinal FROM backfill_date
        WHERE CASE state WHEN 'skipped' THEN reason = '' ELSE dag_run_id IS NULL END
    """,
    "a date that is planned twice": """
        SELECT backfill_id, logical_date FROM backfill_date GROUP BY 1, 2 HAVING count(*) > 1
    """,
    "a run at work for a backfill that does not wait for it": """
        SELECT run.run_id, run.backfill_id FROM dag_run AS run JOIN backfill ON backfill.id = run.backfill_id
        LEFT JOIN backfill_date AS date ON (date.backfill_id, date.dag_run_id) = (backfill.id, run.id)
        WHERE run.state IN ('queued', 'running')
          AND (backfill.state IN ('cancelled', 'success', 'failed') OR coalesce(date.state NOT IN ('open', 'retry'), true))
    """,
    "an open date whose run has ended": """
        SELECT date.backfill_id, date.ordinal FROM backfill_date AS date JOIN dag_run AS run ON run.id = date.dag_run_id
        WHERE date.state = 'open' AND run.state IN ('success', 'failed')
    """,
    "a state that is not what the dates say": """
        SELECT id, state::text, dates, succeeded, failed, skipped, cancelled, is_planned, stop_reason
        FROM backfill
        CROSS JOIN LATERAL (SELECT dates - succeeded - failed - skipped - cancelled AS unfinished) AS it
        WHERE NOT deleted AND NOT CASE state
            WHEN 'success' THEN unfinished + failed + cancelled = 0 AND is_planned AND stop_reason = ''
            WHEN 'failed' THEN unfinished = 0 AND failed > 0 AND (is_planned OR stop_reason <> '')
            WHEN 'cancelled' THEN unfinished = 0 AND was_cancelled
            WHEN 'cancelling' THEN unfinished > 0 AND was_cancelled
            ELSE unfinished > 0 OR NOT (is_planned OR stop_reason <> '')
        END
    """,
    MISCOUNTED_STAGES: """
        SELECT backfill_id, dag_id, counted.numbers, stage.numbers FROM (
            SELECT date.backfill_id, run.dag_id, ARRAY[
                count(*), count(*) FILTER (WHERE date.state = 'retry'), count(*) FILTER (WHERE date.state = 'open'),
                count(*) FILTER (WHERE date.state = 'success'), count(*) FILTER (WHERE date.state = 'failed'),
                count(*) FILTER (WHERE date.state = 'skipped'), count(*) FILTER (WHERE date.state = 'cancelled')
            ] AS numbers
            FROM backfill_date AS date
            JOIN backfill ON backfill.id = date.backfill_id AND backfill.outlets = 'cascade'
            JOIN dag_run AS run ON run.id = date.dag_run_id
            GROUP BY 1, 2
        ) AS counted
        FULL JOIN (
            SELECT backfill_id, stage.dag_id, ARRAY[
                stage.dates, waiting, open, stage.succeeded, stage.failed, stage.skipped, stage.cancelled
            ]::bigint[] AS numbers
            FROM backfill_stage AS stage JOIN backfill ON backfill.id = backfill_id
            WHERE NOT deleted AND stage.dates > 0
        ) AS stage USING (backfill_id, dag_id)
        WHERE counted.numbers IS DISTINCT FROM stage.numbers
    """,
    "an end without its time, or the other way round": """
        SELECT id, state::text FROM backfill WHERE (state IN ('cancelled', 'success', 'failed')) <> (run_end_date IS NOT NULL)
    """,
}

MISCOUNTED = """
    SELECT backfill.id, backfill.dates, succeeded, failed, skipped, cancelled, backfill.tasks, counted.* FROM backfill, LATERAL (
        SELECT count(*) AS dates, count(*) FILTER (WHERE state = 'success') AS successes,
            count(*) FILTER (WHERE state = 'failed') AS failures, count(*) FILTER (WHERE state = 'skipped') AS omissions,
            count(*) FILTER (WHERE state = 'cancelled') AS cancels, coalesce(max(ordinal), 0) AS last,
            coalesce(sum(tasks), 0) AS tasks
        FROM backfill_date WHERE backfill_id = backfill.id
    ) AS counted
    WHERE NOT deleted AND (backfill.dates, succeeded, failed, skipped, cancelled, backfill.dates, backfill.tasks)
        IS DISTINCT FROM (counted.dates, successes, failures, omissions, cancels, last, counted.tasks)
"""
"""Backfills whose counts are not those of their dates."""
