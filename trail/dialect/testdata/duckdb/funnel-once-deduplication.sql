WITH
    entries AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            row_number() OVER () AS id,
            (
                CASE WHEN event = 'view' THEN 1 ELSE 0 END +
                CASE WHEN event IN ('view', 'cart') THEN 2 ELSE 0 END +
                CASE WHEN event = 'cart' THEN 4 ELSE 0 END
            ) AS mask,
            unnest([
                CASE WHEN event = 'view' THEN 1 END,
                CASE WHEN event IN ('view', 'cart') THEN 2 END,
                CASE WHEN event = 'cart' THEN 3 END
            ]) AS step
        FROM events
        WHERE event IN ('view', 'cart')
    ),
    ordered AS MATERIALIZED (
        SELECT *, row_number() OVER (PARTITION BY user ORDER BY ms, step, mask) AS pos
        FROM entries
        WHERE step IS NOT NULL
    ),
    chains_1 AS MATERIALIZED (
        SELECT *, ms AS began, [id] AS used
        FROM ordered
        WHERE step = 1
    ),
    entries_2 AS (
        SELECT *
        FROM ordered
        WHERE step = 2
    ),
    best_1 AS (
        SELECT user, ms, max(began) AS began
        FROM chains_1
        GROUP BY user, ms
    ),
    chains_2 AS MATERIALIZED (
        SELECT * EXCLUDE (began), max(began) AS began
        FROM (
            SELECT e.*, s.began, [e.id] AS used
            FROM entries_2 AS e
            ASOF JOIN best_1 AS s ON e.user = s.user AND e.ms > s.ms
            WHERE e.ms - s.began <= 86400000
            UNION ALL
            SELECT e.*, s.began, list_sort(list_append(s.used, e.id)) AS used
            FROM entries_2 AS e
            JOIN chains_1 AS s ON e.user = s.user AND e.ms = s.ms AND NOT list_contains(s.used, e.id)
            WHERE e.ms - s.began <= 86400000
        )
        GROUP BY ALL
    ),
    entries_3 AS (
        SELECT *
        FROM ordered
        WHERE step = 3
    ),
    best_2 AS (
        SELECT user, ms, max(began) AS began
        FROM chains_2
        GROUP BY user, ms
    ),
    chains_3 AS MATERIALIZED (
        SELECT * EXCLUDE (began), max(began) AS began
        FROM (
            SELECT e.*, s.began, [e.id] AS used
            FROM entries_3 AS e
            ASOF JOIN best_2 AS s ON e.user = s.user AND e.ms > s.ms
            WHERE e.ms - s.began <= 86400000
            UNION ALL
            SELECT e.*, s.began, list_sort(list_append(s.used, e.id)) AS used
            FROM entries_3 AS e
            JOIN chains_2 AS s ON e.user = s.user AND e.ms = s.ms AND NOT list_contains(s.used, e.id)
            WHERE e.ms - s.began <= 86400000
        )
        GROUP BY ALL
    ),
    chains AS (
        SELECT
            o.*,
            r1.began AS began_1,
            r2.began AS began_2,
            r3.began AS began_3
        FROM ordered AS o
        LEFT JOIN (SELECT user, pos, max(began) AS began FROM chains_1 GROUP BY ALL) AS r1 USING (user, pos)
        LEFT JOIN (SELECT user, pos, max(began) AS began FROM chains_2 GROUP BY ALL) AS r2 USING (user, pos)
        LEFT JOIN (SELECT user, pos, max(began) AS began FROM chains_3 GROUP BY ALL) AS r3 USING (user, pos)
    ),
    reached AS (
        SELECT
            *,
            min(CASE WHEN began_1 IS NOT NULL THEN pos END) OVER whole AS reached_1,
            min(CASE WHEN began_2 IS NOT NULL THEN pos END) OVER whole AS reached_2,
            min(CASE WHEN began_3 IS NOT NULL THEN pos END) OVER whole AS reached_3
        FROM chains
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
