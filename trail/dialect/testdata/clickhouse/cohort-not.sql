SELECT count(*) AS users
FROM (
    SELECT user
    FROM events
    WHERE (event = 'cart' OR event = 'purchase' OR event = 'open')
    GROUP BY user
    HAVING countIf(event = 'cart') >= 2
       AND countIf(event = 'cart') <= 5
       AND countIf(event = 'purchase') < 1
       AND (countIf(event = 'open') < 2 OR countIf(event = 'open') > 3)
)
