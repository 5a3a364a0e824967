-- One row for all users (total = 1), then one for each group.
-- The groups beyond the limit are one, nth = 5.
WITH
    entries AS (
        SELECT
            user,
            item AS part,
            toUnixTimestamp64Milli(time) AS ms,
            price AS value_1,
            CASE
                WHEN event = 'view' THEN 1
                WHEN event = 'cart' THEN 2
                WHEN event = 'purchase' THEN 3
            END AS step
        FROM events
        WHERE event IN ('view', 'cart', 'purchase')
          AND item != ''
    ),
    ordered AS (
        SELECT *, row_number() OVER (PARTITION BY user, part ORDER BY ms, step) AS pos
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
        WINDOW earlier AS (PARTITION BY user, part ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 86400000 THEN max(began_2) OVER earlier END AS began_3
        FROM chains_2
        WINDOW earlier AS (PARTITION BY user, part ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    reached AS (
        SELECT
            *,
            min(CASE WHEN began_1 IS NOT NULL THEN pos END) OVER whole AS reached_1,
            min(CASE WHEN began_2 IS NOT NULL THEN pos END) OVER whole AS reached_2,
            min(CASE WHEN began_3 IS NOT NULL THEN pos END) OVER whole AS reached_3
        FROM chains_3
        WINDOW whole AS (PARTITION BY user, part)
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
        SELECT
            *,
            CASE WHEN step = level AND pos <= coalesce(reached_3, 9223372036854775807) THEN ms END AS end_3
        FROM levels
        WHERE level > 0
          AND (pos <= coalesce(reached_3, 9223372036854775807) OR step = 2)
    ),
    ends_2 AS (
        SELECT
            *,
            CASE WHEN step = level AND pos <= coalesce(reached_3, 9223372036854775807) THEN ms WHEN step = 2 THEN min(CASE WHEN step = 3 THEN end_3 END) OVER later END AS end_2
        FROM ends_3
        WINDOW later AS (PARTITION BY user, part ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    ends_1 AS (
        SELECT
            *,
            CASE WHEN step = level AND pos <= coalesce(reached_3, 9223372036854775807) THEN ms WHEN step = 1 THEN min(CASE WHEN step = 2 THEN end_2 END) OVER later END AS end_1
        FROM ends_2
        WINDOW later AS (PARTITION BY user, part ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    times_1 AS (
        SELECT
            *,
            min(CASE WHEN step = 1 AND end_1 - ms <= 86400000 THEN ms END) OVER whole AS t_1
        FROM ends_1
        WINDOW whole AS (PARTITION BY user, part)
    ),
    times_2 AS (
        SELECT
            *,
            min(CASE WHEN step = 2 AND ms >= t_1 AND end_2 - t_1 <= 86400000 THEN ms END) OVER whole AS t_2
        FROM times_1
        WINDOW whole AS (PARTITION BY user, part)
    ),
    times_3 AS (
        SELECT
            *,
            min(CASE WHEN step = 3 AND ms >= t_2 AND end_3 - t_1 <= 86400000 THEN ms END) OVER whole AS t_3
        FROM times_2
        WINDOW whole AS (PARTITION BY user, part)
    ),
    reaching AS (
        SELECT *, CASE WHEN level >= 2 THEN value_1 END AS of_value_1
        FROM times_3
        WHERE ((step = 2 AND ms = t_2) OR (level < 2 AND step = 1 AND ms = t_1))
    ),
    winners AS (
        SELECT
            user,
            level,
            of_value_1 AS value_1,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, t_1, t_2, t_3, of_value_1 NULLS FIRST) AS place
        FROM reaching
    ),
    sizes AS (
        SELECT *, count(*) OVER (PARTITION BY value_1) AS size
        FROM winners
        WHERE place = 1
    ),
    ranked AS (
        SELECT
            *,
            least(dense_rank() OVER (ORDER BY size DESC, value_1 NULLS FIRST), 5) AS nth
        FROM sizes
    )
SELECT
    grouping(nth) AS total,
    nth,
    min(value_1) AS group_1,
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    countIf(level >= 3) AS step_3
FROM ranked
GROUP BY GROUPING SETS ((), (nth))
ORDER BY total DESC, nth
