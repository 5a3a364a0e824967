-- One row for all users (total = 1), then one for each group.
-- The groups beyond the limit are one, nth = 3.
WITH
    entries AS (
        SELECT
            user,
            toUnixTimestamp64Milli(time) AS ms,
            toString(device) AS value_1,
            toString(country) AS value_2,
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
            value_2,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, ms, value_1 NULLS FIRST, value_2 NULLS FIRST) AS place
        FROM levels
    ),
    sizes AS (
        SELECT *, count(*) OVER (PARTITION BY value_1, value_2) AS size
        FROM winners
        WHERE place = 1
    ),
    ranked AS (
        SELECT
            *,
            least(dense_rank() OVER (ORDER BY size DESC, value_1 NULLS FIRST, value_2 NULLS FIRST), 3) AS nth
        FROM sizes
    )
SELECT
    grouping(nth) AS total,
    nth,
    min(value_1) AS group_1,
    min(value_2) AS group_2,
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM ranked
GROUP BY GROUPING SETS ((), (nth))
ORDER BY total DESC, nth
