WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            CASE
                WHEN event = 'visit' THEN 1
                WHEN event = 'cart' THEN 2
                WHEN event = 'purchase' THEN 3
            END AS step
        FROM events
        WHERE event IN ('visit', 'cart', 'purchase')
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
            CASE WHEN step = 2 AND ms - max(began_1) OVER earlier <= 2592000000 THEN max(began_1) OVER earlier END AS began_2
        FROM chains_1
        WINDOW earlier AS (PARTITION BY user ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    chains_3 AS (
        SELECT
            *,
            CASE WHEN step = 3 AND ms - max(began_2) OVER earlier <= 2592000000 THEN max(began_2) OVER earlier END AS began_3
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
    scanned AS (
        SELECT
            *,
            coalesce(min(CASE WHEN
                    step = 2 AND pos > reached_2
                    OR step = 3 AND pos > reached_3
                THEN pos END) OVER whole, 9223372036854775807) AS stop
        FROM reached
        WINDOW whole AS (PARTITION BY user)
    ),
    levels AS (
        SELECT
            *,
            CASE
                WHEN reached_3 < stop THEN 3
                WHEN reached_2 < stop THEN 2
                WHEN reached_1 < stop THEN 1
                ELSE 0
            END AS level
        FROM scanned
    ),
    users AS (
        SELECT user, max(level) AS best
        FROM levels
        GROUP BY user
    )
SELECT
    count(*) FILTER (best >= 1) AS step_1,
    count(*) FILTER (best >= 2) AS step_2,
    count(*) FILTER (best >= 3) AS step_3
FROM users
