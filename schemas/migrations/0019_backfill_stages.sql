-- Of the dates of a cascade, the number by DAG and state. They follow the dates, as the counters of the backfill do. Dates whose
-- runs are deleted are not counted any more.
CREATE TABLE backfill_stage (
    backfill_id bigint NOT NULL,
    dag_id text COLLATE "C" NOT NULL,
    dates integer NOT NULL,
    waiting integer NOT NULL,
    open integer NOT NULL,
    succeeded integer NOT NULL,
    failed integer NOT NULL,
    skipped integer NOT NULL,
    cancelled integer NOT NULL,
    PRIMARY KEY (backfill_id, dag_id)
) WITH (fillfactor = 50);
CREATE INDEX backfill_stage_dag ON backfill_stage (dag_id);

-- After the triggers that count the dates of the backfill: the lock of its row protects its stages.
CREATE FUNCTION count_backfill_stages() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign CONSTANT integer := TG_ARGV[0];
BEGIN
    INSERT INTO backfill_stage AS stage (
        backfill_id, dag_id, dates, waiting, open, succeeded, failed, skipped, cancelled
    )
    SELECT
        changed.backfill_id, run.dag_id, sign * count(*),
        sign * count(*) FILTER (WHERE changed.state = 'retry'),
        sign * count(*) FILTER (WHERE changed.state = 'open'),
        sign * count(*) FILTER (WHERE changed.state = 'success'),
        sign * count(*) FILTER (WHERE changed.state = 'failed'),
        sign * count(*) FILTER (WHERE changed.state = 'skipped'),
        sign * count(*) FILTER (WHERE changed.state = 'cancelled')
    FROM changed
    JOIN backfill ON backfill.id = changed.backfill_id AND backfill.outlets = 'cascade'
    JOIN dag_run AS run ON run.id = changed.dag_run_id
    GROUP BY changed.backfill_id, run.dag_id
    ORDER BY changed.backfill_id, run.dag_id
    ON CONFLICT (backfill_id, dag_id) DO UPDATE
    SET dates = stage.dates + excluded.dates,
        waiting = stage.waiting + excluded.waiting,
        open = stage.open + excluded.open,
        succeeded = stage.succeeded + excluded.succeeded,
        failed = stage.failed + excluded.failed,
        skipped = stage.skipped + excluded.skipped,
        cancelled = stage.cancelled + excluded.cancelled;
    RETURN NULL;
END
$$;
CREATE TRIGGER insert_counted_by_stage AFTER INSERT ON backfill_date REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_backfill_stages('1');
CREATE TRIGGER update_counted_by_stage AFTER UPDATE ON backfill_date REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_backfill_stages('1');
CREATE TRIGGER update_discounted_by_stage AFTER UPDATE ON backfill_date REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_backfill_stages('-1');

-- The failed dates of a backfill, among millions of others. Dates can be read meanwhile, but not changed until the end of this
-- transaction, so that the count below misses none.
CREATE INDEX backfill_date_failed ON backfill_date (backfill_id, ordinal) WHERE state = 'failed';
INSERT INTO backfill_stage (backfill_id, dag_id, dates, waiting, open, succeeded, failed, skipped, cancelled)
SELECT
    date.backfill_id, run.dag_id, count(*),
    count(*) FILTER (WHERE date.state = 'retry'),
    count(*) FILTER (WHERE date.state = 'open'),
    count(*) FILTER (WHERE date.state = 'success'),
    count(*) FILTER (WHERE date.state = 'failed'),
    count(*) FILTER (WHERE date.state = 'skipped'),
    count(*) FILTER (WHERE date.state = 'cancelled')
FROM backfill
JOIN backfill_date AS date ON date.backfill_id = backfill.id
JOIN dag_run AS run ON run.id = date.dag_run_id
WHERE backfill.outlets = 'cascade'
GROUP BY date.backfill_id, run.dag_id;
