SELECT count(*) AS users
FROM (
    SELECT user
    FROM events
    WHERE (event = 'purchase' OR event = 'open')
      AND time >= toDateTime64('2026-01-05 00:00:00.000', 3, 'UTC')
      AND time < toDateTime64('2026-02-16 00:00:00.000', 3, 'UTC')
    GROUP BY user
    HAVING countIf(event = 'purchase') >= 3
       AND countIf(event = 'open') >= 1
)
