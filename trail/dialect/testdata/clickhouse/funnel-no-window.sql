-- Times are given to windowFunnel in milliseconds since 1900.
SELECT countIf(level >= 1) AS step_1, countIf(level >= 2) AS step_2
FROM (
    SELECT
        user,
        windowFunnel(4611686018427387904)(
            toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
            event = 'signup',
            event = 'purchase'
        ) AS level
    FROM events
    WHERE event IN ('signup', 'purchase')
    GROUP BY user
)
