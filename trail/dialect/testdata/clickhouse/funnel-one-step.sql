-- Times are given to windowFunnel in milliseconds since 1900.
SELECT countIf(level >= 1) AS step_1
FROM (
    SELECT
        user,
        windowFunnel(4611686018427387904)(
            toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
            event = 'view'
        ) AS level
    FROM events
    WHERE event = 'view'
      AND time >= toDateTime64('2026-01-12 00:00:00.000', 3, 'UTC')
      AND time < toDateTime64('2026-01-19 00:00:00.000', 3, 'UTC')
    GROUP BY user
)
