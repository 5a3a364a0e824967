-- Times are given to windowFunnel in milliseconds since 1900.
WITH
    levels AS (
        SELECT
            user,
            windowFunnel(86400000)(
                toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
                event = 'view',
                event = 'cart',
                event = 'purchase'
            ) AS level
        FROM events
        WHERE event IN ('view', 'cart', 'purchase')
          AND item != ''
        GROUP BY user, item
    ),
    users AS (
        SELECT user, max(level) AS best
        FROM levels
        GROUP BY user
    )
SELECT
    countIf(best >= 1) AS step_1,
    countIf(best >= 2) AS step_2,
    countIf(best >= 3) AS step_3
FROM users
