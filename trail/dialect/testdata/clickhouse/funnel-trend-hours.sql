-- Times are given to windowFunnel in milliseconds since 1900.
-- A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).
-- Buckets are hours since 1970.
WITH
    firsts AS (
        SELECT
            user,
            toInt64(floor((toUnixTimestamp64Milli(time) + 1800000) / 3600000)) AS in_bucket,
            toUnixTimestamp64Milli(time) AS step_ms
        FROM events
        WHERE event = 'view'
          AND time >= toDateTime64('2026-01-05 00:00:00.000', 3, 'UTC')
          AND time < toDateTime64('2026-01-06 00:00:00.000', 3, 'UTC')
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
            toInt64(0) AS bucket,
            min(step_ms) AS since,
            max(step_ms) AS until
        FROM firsts
        GROUP BY user
    ),
    levels AS (
        SELECT
            user,
            total,
            bucket,
            windowFunnel(1800000)(
                toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
                event = 'view' AND toUnixTimestamp64Milli(time) <= until,
                event = 'cart'
            ) AS level
        FROM events JOIN runs USING (user)
        WHERE event IN ('view', 'cart')
          AND time >= toDateTime64('2026-01-05 00:00:00.000', 3, 'UTC')
          AND time < toDateTime64('2026-01-06 00:00:00.000', 3, 'UTC')
          AND toUnixTimestamp64Milli(time) >= since
          AND toUnixTimestamp64Milli(time) - until <= 1800000
        GROUP BY user, total, bucket
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
    countIf(best >= 1) AS step_1,
    countIf(best >= 2) AS step_2
FROM users
GROUP BY total, bucket
ORDER BY total DESC, bucket
