WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    )
SELECT user
FROM starts
WHERE began::DATE = DATE '2026-01-06'
