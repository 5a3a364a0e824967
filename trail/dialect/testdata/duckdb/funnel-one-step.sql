WITH
    users_1 AS (
        SELECT count(DISTINCT user) AS n
        FROM events
        WHERE event = 'view'
          AND time >= TIMESTAMP '2026-01-12 00:00:00'
          AND time < TIMESTAMP '2026-01-19 00:00:00'
    )
SELECT (SELECT n FROM users_1) AS step_1
