WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
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
    times_1 AS (
        SELECT
            *,
            min(CASE WHEN step = 1 AND end_1 - ms <= 604800000 THEN ms END) OVER whole AS t_1
        FROM ends_1
        WINDOW whole AS (PARTITION BY user)
    ),
    times_2 AS (
        SELECT
            *,
            min(CASE WHEN step = 2 AND ms >= t_1 AND end_2 - t_1 <= 604800000 THEN ms END) OVER whole AS t_2
        FROM times_1
        WINDOW whole AS (PARTITION BY user)
    ),
    times_3 AS (
        SELECT
            *,
            min(CASE WHEN step = 3 AND ms >= t_2 AND end_3 - t_1 <= 604800000 THEN ms END) OVER whole AS t_3
        FROM times_2
        WINDOW whole AS (PARTITION BY user)
    ),
    winners AS (
        SELECT
            user,
            level,
            t_2 - t_1 AS took_2,
            t_3 - t_2 AS took_3,
            row_number() OVER (PARTITION BY user ORDER BY level DESC, t_1, t_2, t_3) AS place
        FROM times_3
        WHERE step = 1
          AND ms = t_1
    )
SELECT
    count(*) FILTER (level >= 1) AS step_1,
    count(*) FILTER (level >= 2) AS step_2,
    quantile_disc(took_2, 0.50) AS median_2,
    quantile_disc(took_2, 0.90) AS p90_2,
    [
        count(*) FILTER (took_2 < 60000),
        count(*) FILTER (took_2 < 300000),
        count(*) FILTER (took_2 < 900000),
        count(*) FILTER (took_2 < 1800000),
        count(*) FILTER (took_2 < 3600000),
        count(*) FILTER (took_2 < 10800000),
        count(*) FILTER (took_2 < 21600000),
        count(*) FILTER (took_2 < 43200000),
        count(*) FILTER (took_2 < 86400000),
        count(*) FILTER (took_2 < 172800000),
        count(*) FILTER (took_2 < 259200000),
        count(*) FILTER (took_2 < 604800000),
        count(*) FILTER (took_2 < 1209600000),
        count(*) FILTER (took_2 < 2592000000),
        count(*) FILTER (took_2 < 7776000000),
        count(took_2)
    ] AS below_2,
    count(*) FILTER (level >= 3) AS step_3,
    quantile_disc(took_3, 0.50) AS median_3,
    quantile_disc(took_3, 0.90) AS p90_3,
    [
        count(*) FILTER (took_3 < 60000),
        count(*) FILTER (took_3 < 300000),
        count(*) FILTER (took_3 < 900000),
        count(*) FILTER (took_3 < 1800000),
        count(*) FILTER (took_3 < 3600000),
        count(*) FILTER (took_3 < 10800000),
        count(*) FILTER (took_3 < 21600000),
        count(*) FILTER (took_3 < 43200000),
        count(*) FILTER (took_3 < 86400000),
        count(*) FILTER (took_3 < 172800000),
        count(*) FILTER (took_3 < 259200000),
        count(*) FILTER (took_3 < 604800000),
        count(*) FILTER (took_3 < 1209600000),
        count(*) FILTER (took_3 < 2592000000),
        count(*) FILTER (took_3 < 7776000000),
        count(took_3)
    ] AS below_3
FROM winners
WHERE place = 1
