SELECT count(*) AS users
FROM (
    SELECT user
    FROM events
    WHERE (event = 'purchase' OR event = 'open')
      AND time >= TIMESTAMP '2026-01-05 00:00:00'
      AND time < TIMESTAMP '2026-02-16 00:00:00'
    GROUP BY user
    HAVING count(*) FILTER (event = 'purchase') >= 3
       AND count(*) FILTER (event = 'open') >= 1
)
