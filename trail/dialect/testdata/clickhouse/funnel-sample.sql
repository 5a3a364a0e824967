-- Times are given to windowFunnel in milliseconds since 1900.
-- About 50 % of the users, by the hash that trail has too; samples of other programs differ.
SELECT
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM (
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
      AND xxHash64(user) <= 9223372036854775808
    GROUP BY user
)
