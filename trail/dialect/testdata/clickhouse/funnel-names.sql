-- Times are given to windowFunnel in milliseconds since 1900.
SELECT countIf(level >= 1) AS step_1, countIf(level >= 2) AS step_2
FROM (
    SELECT
        user,
        windowFunnel(3600000)(
            toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
            event IN ('visit', 'open'),
            event IN ('cart', 'purchase')
        ) AS level
    FROM events
    WHERE event IN ('visit', 'open', 'cart', 'purchase')
      AND time >= toDateTime64('2026-01-05 00:00:00.000', 3, 'UTC')
    GROUP BY user
)
