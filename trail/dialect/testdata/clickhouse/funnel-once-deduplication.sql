-- Times are given to windowFunnel in milliseconds since 1900.
-- Of events of one time that can be several steps, ClickHouse takes the one first that it reads first.
SELECT
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM (
    SELECT
        user,
        windowFunnel(86400000, 'strict_deduplication', 'strict_once')(
            toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
            event = 'view',
            event IN ('view', 'cart'),
            event = 'cart'
        ) AS level
    FROM events
    WHERE event IN ('view', 'cart')
    GROUP BY user
)
