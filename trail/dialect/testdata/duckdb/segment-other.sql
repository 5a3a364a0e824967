WITH
    top AS (
        SELECT
            nullif(country, '') AS group_1,
            nullif(device, '') AS group_2,
            1 AS kept
        FROM events
        WHERE event = 'purchase'
        GROUP BY group_1, group_2
        ORDER BY count(*) DESC, group_1 NULLS FIRST, group_2 NULLS FIRST
        LIMIT 3
    ),
    matched AS (
        SELECT
            date_trunc('month', time)::DATE AS bucket,
            nullif(country, '') AS group_1,
            nullif(device, '') AS group_2,
            user
        FROM events
        WHERE event = 'purchase'
    )
SELECT
    bucket,
    CASE WHEN t.kept = 1 THEN m.group_1 END AS of_group_1,
    CASE WHEN t.kept = 1 THEN m.group_2 END AS of_group_2,
    CASE WHEN t.kept = 1 THEN 0 ELSE 1 END AS other,
    count(DISTINCT user) AS value
FROM matched AS m
LEFT JOIN top AS t ON m.group_1 IS NOT DISTINCT FROM t.group_1 AND m.group_2 IS NOT DISTINCT FROM t.group_2
GROUP BY bucket, of_group_1, of_group_2, other
ORDER BY bucket, other, value DESC NULLS LAST, of_group_1 NULLS FIRST, of_group_2 NULLS FIRST
