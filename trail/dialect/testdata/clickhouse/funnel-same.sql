-- Times are given to windowFunnel in milliseconds since 1900.
SELECT
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM (
    SELECT user, max(part) AS level
    FROM (
        SELECT
            user,
            windowFunnel(86400000)(
                toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
                event = 'view',
                event = 'cart',
                event = 'purchase'
            ) AS part
        FROM events
        WHERE event IN ('view', 'cart', 'purchase')
          AND item != ''
        GROUP BY user, item
    )
    GROUP BY user
)
