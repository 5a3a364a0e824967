WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            CASE
                WHEN event = 'cart' THEN 1
                WHEN event = 'open' THEN 2
                WHEN event = 'signup' THEN 3
            END AS step
        FROM events
        WHERE event IN ('cart', 'open', 'signup')
    ),
    ordered AS (
        SELECT *, row_number() OVER (PARTITION BY user ORDER BY ms, step) AS pos
        FROM entries
    ),
    levels AS (
        SELECT
            *,
            (
                CASE WHEN min(CASE WHEN step = 1 THEN ms END) OVER onward - ms <= 172800000 THEN 1 ELSE 0 END +
                CASE WHEN min(CASE WHEN step = 2 THEN ms END) OVER onward - ms <= 172800000 THEN 1 ELSE 0 END +
                CASE WHEN min(CASE WHEN step = 3 THEN ms END) OVER onward - ms <= 172800000 THEN 1 ELSE 0 END
            ) AS level
        FROM ordered
        WINDOW onward AS (PARTITION BY user ORDER BY ms RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ),
    users AS (
        SELECT user, max(level) AS best
        FROM levels
        GROUP BY user
    )
SELECT user
FROM users
WHERE best = 2
