-- Times are given to windowFunnel in milliseconds since 1900.
WITH
    levels AS (
        SELECT
            user,
            windowFunnel(604800000)(
                toUInt64(toUnixTimestamp64Milli(time) + 2208988800000),
                event = 'view',
                event = 'cart',
                event = 'purchase'
            ) AS level
        FROM events
        WHERE event IN ('view', 'cart', 'purchase')
        GROUP BY user
    ),
    users AS (
        SELECT user, max(level) AS best
        FROM levels
        GROUP BY user
    )
SELECT user
FROM users
WHERE best = 2
