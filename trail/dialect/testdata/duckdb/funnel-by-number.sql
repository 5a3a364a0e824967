-- One row for all users (total = 1), then one for each group.
WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            price AS value_1,
            CASE
                WHEN event = 'view' THEN 1
                WHEN event = 'cart' THEN 2
            END AS step
        FROM events
        WHERE event IN ('view', 'cart')
    ),
    ordered AS (
        SELECT *, row_number() OVER (PARTITION BY user ORDER BY ms, step) AS pos
        FROM entries
    ),
    chains_1 AS (
        SELECT *, CASE WHEN step = 1 THEN ms END AS began_1
        FROM ordered
    ),
    chains_2 AS (
        SELECT
            *,
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 86400000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    reached AS (
        SELECT
            *,
            min(CASE WHEN began_1 IS NOT NULL THEN pos END) OVER whole AS reached_1,
            min(CASE WHEN began_2 IS NOT NULL THEN pos END) OVER whole AS reached_2
        FROM chains_2
        WINDOW whole AS (PARTITION BY user)
    ),
    levels AS (
        SELECT
            *,
            CASE
                WHEN reached_2 IS NOT NULL THEN 2
                WHEN reached_1 IS NOT NULL THEN 1
                ELSE 0
            END AS level
        FROM reached
    ),
    ends_2 AS (
        SELECT *, CASE WHEN step = level THEN ms END AS end_2
        FROM levels
        WHERE level > 0
          AND pos <= coalesce(reached_2, 9223372036854775807)
    ),
    ends_1 AS (
        SELECT
            *,
            CASE WHEN step = level THEN ms WHEN step = 1 THEN min(CASE WHEN step = 2 THEN end_2 END) OVER later END AS end_1
        FROM ends_2
        WINDOW later AS (PARTITION BY user ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    winners AS (
        SELECT
            user,
            level,
            value_1,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, ms, value_1 NULLS FIRST) AS place
        FROM ends_1
        WHERE step = 1
          AND end_1 - ms <= 86400000
    )
SELECT
    grouping(value_1) AS total,
    value_1,
    count(*) FILTER (level >= 1) AS step_1,
    count(*) FILTER (level >= 2) AS step_2
FROM winners
WHERE place = 1
GROUP BY GROUPING SETS ((), (value_1))
ORDER BY total DESC, step_1 DESC, value_1 NULLS FIRST
LIMIT 4
