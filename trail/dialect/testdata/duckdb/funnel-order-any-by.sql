-- One row for all users (total = 1), then one for each group.
WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            coalesce(device, '') AS value_1,
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
    winners AS (
        SELECT
            user,
            level,
            value_1,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, ms, value_1 NULLS FIRST) AS place
        FROM levels
    )
SELECT
    grouping(value_1) AS total,
    value_1,
    count(*) FILTER (level >= 1) AS step_1,
    count(*) FILTER (level >= 2) AS step_2,
    count(*) FILTER (level >= 3) AS step_3
FROM winners
WHERE place = 1
GROUP BY GROUPING SETS ((), (value_1))
ORDER BY total DESC, step_1 DESC, value_1 NULLS FIRST
LIMIT 1001
