WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            unnest([
                CASE WHEN event = 'visit' THEN 1 END,
                CASE WHEN event = 'cart' THEN 2 END,
                CASE WHEN event = 'purchase' THEN 3 END,
                CASE WHEN event = 'open' THEN -1 END
            ]) AS step
        FROM events
        WHERE (event IN ('visit', 'cart', 'purchase') OR event = 'open')
    ),
    ordered AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY user ORDER BY ms, step) AS pos,
            sum(CASE WHEN step IN (-1) THEN 1 ELSE 0 END) OVER (PARTITION BY user ORDER BY ms, step) AS era_1
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
        WINDOW earlier AS (PARTITION BY user, era_1 ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
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
