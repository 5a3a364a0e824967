WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    )
SELECT user
FROM starts
WHERE toDate32(began) = toDate32('2026-01-06')
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
