-- A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).
WITH
    firsts AS (
        SELECT user, time::DATE AS in_bucket, epoch_ms(time) AS step_ms
        FROM events
        WHERE event = 'visit'
          AND time >= TIMESTAMP '2026-01-05 00:00:00'
          AND time < TIMESTAMP '2026-01-12 00:00:00'
    ),
    runs AS (
        SELECT
            user,
            0 AS total,
            in_bucket AS bucket,
            min(step_ms) AS since,
            max(step_ms) AS until
        FROM firsts
        GROUP BY user, in_bucket
        UNION ALL
        SELECT
            user,
            1 AS total,
            DATE '1970-01-01' AS bucket,
            min(step_ms) AS since,
            max(step_ms) AS until
        FROM firsts
        GROUP BY user
    ),
    entries AS (
        SELECT
            user,
            total,
            bucket,
            epoch_ms(time) AS ms,
            CASE
                WHEN event = 'visit' AND epoch_ms(time) <= until THEN 1
                WHEN event = 'view' THEN 2
                WHEN event = 'cart' THEN 3
                ELSE 0
            END AS step
        FROM events JOIN runs USING (user)
        WHERE time >= TIMESTAMP '2026-01-05 00:00:00'
          AND time < TIMESTAMP '2026-01-12 00:00:00'
          AND epoch_ms(time) >= since
          AND epoch_ms(time) - until <= 86400000
    ),
    ordered AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY user, total, bucket ORDER BY ms, step) AS pos
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
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 86400000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user, total, bucket ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 86400000 THEN max(began_2) OVER earlier END AS began_3
        FROM chains_2
        WINDOW earlier AS (PARTITION BY user, total, bucket ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
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
    scanned AS (
        SELECT
            *,
            coalesce(min(CASE WHEN
                    step = 0 AND pos > reached_1
                    OR step = 3 AND pos > reached_1 AND pos < coalesce(reached_2, 9223372036854775807)
                THEN pos END) OVER whole, 9223372036854775807) AS stop
        FROM reached
        WINDOW whole AS (PARTITION BY user, total, bucket)
    ),
    levels AS (
        SELECT
            *,
            CASE
                WHEN reached_3 < stop THEN 3
                WHEN reached_2 < stop THEN 2
                WHEN reached_1 < stop THEN 1
                ELSE 0
            END AS level
        FROM scanned
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
SELECT
    total,
    bucket,
    count(*) FILTER (best >= 1) AS step_1,
    count(*) FILTER (best >= 2) AS step_2,
    count(*) FILTER (best >= 3) AS step_3
FROM users
GROUP BY total, bucket
ORDER BY total DESC, bucket
