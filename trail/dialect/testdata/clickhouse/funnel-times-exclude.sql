WITH
    entries AS (
        SELECT
            user,
            country AS part,
            toUnixTimestamp64Milli(time) AS ms,
            arrayJoin([
                CASE WHEN event = 'visit' THEN 1 END,
                CASE WHEN event = 'cart' THEN 2 END,
                CASE WHEN event = 'purchase' THEN 3 END,
                CASE WHEN event = 'open' THEN -1 END
            ]) AS step
        FROM events
        WHERE (event IN ('visit', 'cart', 'purchase') OR event = 'open')
          AND country != ''
    ),
    ordered AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY user, part ORDER BY ms, step) AS pos,
            sum(CASE WHEN step IN (-1) THEN 1 ELSE 0 END) OVER (PARTITION BY user, part ORDER BY ms, step) AS era_1
        FROM entries
        WHERE step IS NOT NULL
    ),
    chains_1 AS (
        SELECT *, CASE WHEN step = 1 THEN ms END AS began_1
        FROM ordered
    ),
    chains_2 AS (
        SELECT
            *,
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 2592000000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user, part, era_1 ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 2592000000 THEN max(began_2) OVER earlier END AS began_3
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
        WINDOW later AS (PARTITION BY user, part ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    ends_1 AS (
        SELECT
            *,
            CASE WHEN step = level THEN ms WHEN step = 1 THEN min(CASE WHEN step = 2 THEN end_2 END) OVER later END AS end_1
        FROM ends_2
        WINDOW later AS (PARTITION BY user, part, era_1 ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    times_1 AS (
        SELECT
            *,
            min(CASE WHEN step = 1 AND end_1 - ms <= 2592000000 THEN ms END) OVER whole AS t_1,
            min(CASE WHEN step = 1 AND end_1 - ms <= 2592000000 THEN era_1 END) OVER whole AS in_era_1
        FROM ends_1
        WINDOW whole AS (PARTITION BY user, part)
    ),
    times_2 AS (
        SELECT
            *,
            min(CASE WHEN step = 2 AND ms >= t_1 AND era_1 = in_era_1 AND end_2 - t_1 <= 2592000000 THEN ms END) OVER whole AS t_2
        FROM times_1
        WINDOW whole AS (PARTITION BY user, part)
    ),
    times_3 AS (
        SELECT
            *,
            min(CASE WHEN step = 3 AND ms >= t_2 AND end_3 - t_1 <= 2592000000 THEN ms END) OVER whole AS t_3
        FROM times_2
        WINDOW whole AS (PARTITION BY user, part)
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
    countIf(level >= 1) AS step_1,
    countIf(level >= 2) AS step_2,
    arrayElementOrNull(arraySort(groupArray(took_2)), intDiv(50 * count(took_2) + 99, 100)) AS median_2,
    arrayElementOrNull(arraySort(groupArray(took_2)), intDiv(90 * count(took_2) + 99, 100)) AS p90_2,
    [
        countIf(took_2 < 60000),
        countIf(took_2 < 300000),
        countIf(took_2 < 900000),
        countIf(took_2 < 1800000),
        countIf(took_2 < 3600000),
        countIf(took_2 < 10800000),
        countIf(took_2 < 21600000),
        countIf(took_2 < 43200000),
        countIf(took_2 < 86400000),
        countIf(took_2 < 172800000),
        countIf(took_2 < 259200000),
        countIf(took_2 < 604800000),
        countIf(took_2 < 1209600000),
        countIf(took_2 < 2592000000),
        countIf(took_2 < 7776000000),
        count(took_2)
    ] AS below_2,
    countIf(level >= 3) AS step_3,
    arrayElementOrNull(arraySort(groupArray(took_3)), intDiv(50 * count(took_3) + 99, 100)) AS median_3,
    arrayElementOrNull(arraySort(groupArray(took_3)), intDiv(90 * count(took_3) + 99, 100)) AS p90_3,
    [
        countIf(took_3 < 60000),
        countIf(took_3 < 300000),
        countIf(took_3 < 900000),
        countIf(took_3 < 1800000),
        countIf(took_3 < 3600000),
        countIf(took_3 < 10800000),
        countIf(took_3 < 21600000),
        countIf(took_3 < 43200000),
        countIf(took_3 < 86400000),
        countIf(took_3 < 172800000),
        countIf(took_3 < 259200000),
        countIf(took_3 < 604800000),
        countIf(took_3 < 1209600000),
        countIf(took_3 < 2592000000),
        countIf(took_3 < 7776000000),
        count(took_3)
    ] AS below_3
FROM winners
WHERE place = 1
