WITH
    users_1 AS (
        SELECT count(DISTINCT user) AS n
        FROM events
        WHERE event IN ('visit', 'open')
          AND time >= TIMESTAMP '2026-01-05 00:00:00'
    ),
    reached_1 AS (
        SELECT user, time, time AS began
        FROM events
        WHERE event IN ('visit', 'open')
          AND time >= TIMESTAMP '2026-01-05 00:00:00'
    ),
    events_2 AS (
        SELECT user, time
        FROM events
        WHERE event IN ('cart', 'purchase')
          AND time >= TIMESTAMP '2026-01-05 00:00:00'
    ),
    reached_2 AS (
        SELECT e.user, e.time, s.began
        FROM events_2 AS e
        ASOF JOIN reached_1 AS s ON e.user = s.user AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 1 HOUR
    )
SELECT
    (SELECT n FROM users_1) AS step_1,
    (SELECT count(DISTINCT user) FROM reached_2) AS step_2
