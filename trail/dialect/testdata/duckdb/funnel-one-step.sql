WITH
    reached_1 AS (
        SELECT user, time, time AS began
        FROM events
        WHERE event = 'view'
          AND time >= TIMESTAMP '2026-01-12 00:00:00'
          AND time < TIMESTAMP '2026-01-19 00:00:00'
    )
SELECT (SELECT count(DISTINCT user) FROM reached_1) AS step_1
