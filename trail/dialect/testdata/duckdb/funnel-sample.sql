-- About 50 % of the users; DuckDB has a hash of its own, so they are others than trail takes.
WITH
    users_1 AS (
        SELECT count(DISTINCT user) AS n
        FROM events
        WHERE event = 'view'
          AND hash(user) <= 9223372036854775808
    ),
    reached_1 AS (
        SELECT user, time, time AS began
        FROM events
        WHERE event = 'view'
          AND hash(user) <= 9223372036854775808
    ),
    events_2 AS (
        SELECT user, time
        FROM events
        WHERE event = 'cart'
          AND hash(user) <= 9223372036854775808
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
          AND hash(user) <= 9223372036854775808
    ),
    reached_3 AS (
        SELECT e.user, e.time, s.began
        FROM events_3 AS e
        ASOF JOIN reached_2 AS s ON e.user = s.user AND e.time >= s.time
        WHERE e.time <= s.began + INTERVAL 7 DAY
    )
SELECT
    (SELECT n FROM users_1) AS step_1,
    (SELECT count(DISTINCT user) FROM reached_2) AS step_2,
    (SELECT count(DISTINCT user) FROM reached_3) AS step_3
