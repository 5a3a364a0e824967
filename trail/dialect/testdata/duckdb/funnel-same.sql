WITH
    users_1 AS (
        SELECT count(DISTINCT user) AS n
        FROM events
        WHERE event = 'view'
          AND item != ''
    ),
    reached_1 AS (
        SELECT
            user,
            item AS part,
            time,
            time AS began
        FROM events
        WHERE event = 'view'
          AND item != ''
    ),
    events_2 AS (
        SELECT user, item AS part, time
        FROM events
        WHERE event = 'cart'
          AND item != ''
    ),
    reached_2 AS (
        SELECT
            e.user,
            e.part,
            e.time,
            s.began
        FROM events_2 AS e
        ASOF JOIN reached_1 AS s ON e.user = s.user AND e.part = s.part AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 1 DAY
    ),
    events_3 AS (
        SELECT user, item AS part, time
        FROM events
        WHERE event = 'purchase'
          AND item != ''
    ),
    reached_3 AS (
        SELECT
            e.user,
            e.part,
            e.time,
            s.began
        FROM events_3 AS e
        ASOF JOIN reached_2 AS s ON e.user = s.user AND e.part = s.part AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 1 DAY
    )
SELECT
    (SELECT n FROM users_1) AS step_1,
    (SELECT count(DISTINCT user) FROM reached_2) AS step_2,
    (SELECT count(DISTINCT user) FROM reached_3) AS step_3
