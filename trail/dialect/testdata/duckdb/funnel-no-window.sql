WITH
    users_1 AS (
        SELECT count(DISTINCT user) AS n
        FROM events
        WHERE event = 'signup'
    ),
    reached_1 AS (
        SELECT user, time, time AS began
        FROM events
        WHERE event = 'signup'
    ),
    events_2 AS (
        SELECT user, time
        FROM events
        WHERE event = 'purchase'
    ),
    reached_2 AS (
        SELECT e.user, e.time, s.began
        FROM events_2 AS e
        ASOF JOIN reached_1 AS s ON e.user = s.user AND e.time >= s.time
    )
SELECT
    (SELECT n FROM users_1) AS step_1,
    (SELECT count(DISTINCT user) FROM reached_2) AS step_2
