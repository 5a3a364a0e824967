-- Times are given to windowFunnel in milliseconds since 1900.
-- A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).
WITH
    firsts AS (
        SELECT
            user,
            toStartOfWeek(toTimeZone(time, 'America/New_York'), 0) AS in_bucket,
            toUnixTimestamp64Milli(time) AS step_ms
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
            toDate32('1970-01-01') AS bucket,
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
            windowFunnel(86400000)(
                toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
                event = 'view' AND toUnixTimestamp64Milli(time) <= until,
                event = 'cart',
                event = 'purchase'
            ) AS level
        FROM events JOIN runs USING (user)
        WHERE event IN ('view', 'cart', 'purchase')
          AND toUnixTimestamp64Milli(time) >= since
          AND toUnixTimestamp64Milli(time) - until <= 86400000
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
    countIf(best >= 2) AS step_2,
    countIf(best >= 3) AS step_3
FROM users
GROUP BY total, bucket
ORDER BY total DESC, bucket
SETTINGS enable_extended_results_for_datetime_functions = 1
