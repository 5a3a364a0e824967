-- A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).
WITH
    firsts AS (
        SELECT
            user,
            (date_trunc('week', time::DATE + 1)::DATE - 1) AS in_bucket,
            epoch_ms(time) AS step_ms
        FROM events
        WHERE event = 'view'
    ),
    runs AS (
        SELECT
            user,
            0 AS total,
            in_bucket AS bucket,
            min(step_ms) AS since,
            max(step_ms) AS until
        FROM firsts
        WHERE in_bucket = DATE '2026-01-11'
        GROUP BY user, in_bucket
    ),
    entries AS (
        SELECT
            user,
            total,
            bucket,
            epoch_ms(time) AS ms,
            unnest([
                CASE WHEN event = 'view' AND epoch_ms(time) <= until THEN 1 END,
                CASE WHEN event = 'cart' THEN 2 END,
                CASE WHEN event = 'purchase' THEN 3 END,
                CASE WHEN event = 'open' THEN -1 END
            ]) AS step
        FROM events JOIN runs USING (user)
        WHERE (event IN ('view', 'cart', 'purchase') OR event = 'open')
          AND epoch_ms(time) >= since
          AND epoch_ms(time) - until <= 604800000
    ),
    ordered AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY user, total, bucket ORDER BY ms, step) AS pos,
            sum(CASE WHEN step IN (-1) THEN 1 ELSE 0 END) OVER (PARTITION BY user, total, bucket ORDER BY ms, step) AS era_1,
            sum(CASE WHEN step IN (-1) THEN 1 ELSE 0 END) OVER (PARTITION BY user, total, bucket ORDER BY ms, step) AS era_2
        FROM entries
        WHERE step IS NOT NULL
    ),
    chains_1 AS (
        SELECT *, CASE WHEN step = 1 THEN ms END AS began_1
        FROM ordered
    ),
    chains_2 AS (
        SELECT
            *,
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 604800000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user, total, bucket, era_1 ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 604800000 THEN max(began_2) OVER earlier END AS began_3
        FROM chains_2
        WINDOW earlier AS (PARTITION BY user, total, bucket, era_2 ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    reached AS (
        SELECT
            *,
            min(CASE WHEN began_1 IS NOT NULL THEN pos END) OVER whole AS reached_1,
            min(CASE WHEN began_2 IS NOT NULL THEN pos END) OVER whole AS reached_2,
            min(CASE WHEN began_3 IS NOT NULL THEN pos END) OVER whole AS reached_3
        FROM chains_3
        WINDOW whole AS (PARTITION BY user, total, bucket)
    ),
    levels AS (
        SELECT
            *,
            CASE
                WHEN reached_3 IS NOT NULL THEN 3
                WHEN reached_2 IS NOT NULL THEN 2
                WHEN reached_1 IS NOT NULL THEN 1
                ELSE 0
            END AS level
        FROM reached
    ),
    users AS (
        SELECT
            user,
            total,
            bucket,
            max(level) AS best
        FROM levels
        GROUP BY user, total, bucket
    )
SELECT user
FROM users
WHERE best >= 2
