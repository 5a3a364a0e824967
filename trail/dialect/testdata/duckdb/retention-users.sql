WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT user, (epoch_ms(time) - epoch_ms(began)) // 604800000 AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND time < began + INTERVAL 56 DAY
    )
SELECT user
FROM starts
WHERE date_trunc('week', began)::DATE = DATE '2026-01-05'
  AND user IN (SELECT user FROM returns WHERE period >= 1 AND period < 2)
