-- A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).
WITH
    firsts AS (
        SELECT
            user,
            (date_trunc('week', timezone('America/New_York', timezone('UTC', time))::DATE + 1)::DATE - 1) AS in_bucket,
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
    reached_1 AS (
        SELECT
            user,
            total,
            bucket,
            time,
            time AS began
        FROM events JOIN runs USING (user)
        WHERE event = 'view'
          AND epoch_ms(time) <= until
          AND epoch_ms(time) >= since
          AND epoch_ms(time) - until <= 86400000
    ),
    events_2 AS (
        SELECT
            user,
            total,
            bucket,
            time
        FROM events JOIN runs USING (user)
        WHERE event = 'cart'
          AND epoch_ms(time) >= since
          AND epoch_ms(time) - until <= 86400000
    ),
    reached_2 AS (
        SELECT
            e.user,
            e.total,
            e.bucket,
            e.time,
            s.began
        FROM events_2 AS e
        ASOF JOIN reached_1 AS s ON e.user = s.user AND e.total = s.total AND e.bucket = s.bucket AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 1 DAY
    ),
    events_3 AS (
        SELECT
            user,
            total,
            bucket,
            time
        FROM events JOIN runs USING (user)
        WHERE event = 'purchase'
          AND epoch_ms(time) >= since
          AND epoch_ms(time) - until <= 86400000
    ),
    reached_3 AS (
        SELECT
            e.user,
            e.total,
            e.bucket,
            e.time,
            s.began
        FROM events_3 AS e
        ASOF JOIN reached_2 AS s ON e.user = s.user AND e.total = s.total AND e.bucket = s.bucket AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 1 DAY
    ),
    levels AS (
        SELECT
            user,
            total,
            bucket,
            1 AS level
        FROM runs
        UNION ALL
        SELECT
            user,
            total,
            bucket,
            2 AS level
        FROM reached_2
        UNION ALL
        SELECT
            user,
            total,
            bucket,
            3 AS level
        FROM reached_3
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
