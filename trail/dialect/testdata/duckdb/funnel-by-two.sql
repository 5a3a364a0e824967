-- One row for all users (total = 1), then one for each group.
-- The groups beyond the limit are one, nth = 4.
WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            coalesce(country, '') AS value_1,
            coalesce(device, '') AS value_2,
            CASE
                WHEN event = 'view' THEN 1
                WHEN event = 'cart' THEN 2
                WHEN event = 'purchase' THEN 3
            END AS step
        FROM events
        WHERE event IN ('view', 'cart', 'purchase')
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
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 604800000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 604800000 THEN max(began_2) OVER earlier END AS began_3
        FROM chains_2
        WINDOW earlier AS (PARTITION BY user ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    reached AS (
        SELECT
            *,
            min(CASE WHEN began_1 IS NOT NULL THEN pos END) OVER whole AS reached_1,
            min(CASE WHEN began_2 IS NOT NULL THEN pos END) OVER whole AS reached_2,
            min(CASE WHEN began_3 IS NOT NULL THEN pos END) OVER whole AS reached_3
        FROM chains_3
        WINDOW whole AS (PARTITION BY user)
    ),
    levels AS (
        SELECT
            *,
            CASE
                WHEN reached_3 IS NOT NULL THEN 3
                WHEN reached_2 IS NOT NULL THEN 2
                WHEN reached_1 IS NOT NULL THEN 1
                ELSE 0
            END AS level
        FROM reached
    ),
    ends_3 AS (
        SELECT *, CASE WHEN step = level THEN ms END AS end_3
        FROM levels
        WHERE level > 0
          AND pos <= coalesce(reached_3, 9223372036854775807)
    ),
    ends_2 AS (
        SELECT
            *,
            CASE WHEN step = level THEN ms WHEN step = 2 THEN min(CASE WHEN step = 3 THEN end_3 END) OVER later END AS end_2
        FROM ends_3
        WINDOW later AS (PARTITION BY user ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
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
            value_2,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, ms, value_1 NULLS FIRST, value_2 NULLS FIRST) AS place
        FROM ends_1
        WHERE step = 1
          AND end_1 - ms <= 604800000
    ),
    sizes AS (
        SELECT *, count(*) OVER (PARTITION BY value_1, value_2) AS size
        FROM winners
        WHERE place = 1
    ),
    ranked AS (
        SELECT
            *,
            least(dense_rank() OVER (ORDER BY size DESC, value_1 NULLS FIRST, value_2 NULLS FIRST), 4) AS nth
        FROM sizes
    )
SELECT
    grouping(nth) AS total,
    nth,
    min(value_1) AS group_1,
    min(value_2) AS group_2,
    count(*) FILTER (level >= 1) AS step_1,
    count(*) FILTER (level >= 2) AS step_2,
    count(*) FILTER (level >= 3) AS step_3
FROM ranked
GROUP BY GROUPING SETS ((), (nth))
ORDER BY total DESC, nth
