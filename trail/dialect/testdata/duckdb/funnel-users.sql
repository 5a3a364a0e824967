WITH
    reached_1 AS (
        SELECT user, time, time AS began
        FROM events
        WHERE event = 'view'
    ),
    events_2 AS (
        SELECT user, time
        FROM events
        WHERE event = 'cart'
    ),
    reached_2 AS (
        SELECT e.user, e.time, s.began
        FROM events_2 AS e
        ASOF JOIN reached_1 AS s ON e.user = s.user AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 7 DAY
    ),
    events_3 AS (
        SELECT user, time
        FROM events
        WHERE event = 'purchase'
    ),
    reached_3 AS (
        SELECT e.user, e.time, s.began
        FROM events_3 AS e
        ASOF JOIN reached_2 AS s ON e.user = s.user AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 7 DAY
    )
SELECT DISTINCT user
FROM reached_2
WHERE user NOT IN (SELECT user FROM reached_3)
