-- Times are given to windowFunnel in milliseconds since 1900.
SELECT
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM (
    SELECT
        user,
        windowFunnel(86400000, 'strict_once')(
            toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
            event = 'view',
            event IN ('view', 'cart'),
            event IN ('view', 'cart', 'purchase')
        ) AS level
    FROM events
    WHERE event IN ('view', 'cart', 'purchase')
    GROUP BY user
)
