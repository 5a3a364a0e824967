SELECT count(*) AS users
FROM (
    SELECT user
    FROM events
    WHERE (event = 'cart' OR event = 'purchase' OR event = 'open')
    GROUP BY user
    HAVING count(*) FILTER (event = 'cart') >= 2
       AND count(*) FILTER (event = 'cart') <= 5
       AND count(*) FILTER (event = 'purchase') < 1
       AND (count(*) FILTER (event = 'open') < 2 OR count(*) FILTER (event = 'open') > 3)
)
