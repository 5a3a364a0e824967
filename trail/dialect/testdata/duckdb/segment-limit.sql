-- Buckets without events are added when the rows are read.
WITH
    top AS (
        SELECT nullif(item, '') AS group_1, 1 AS kept
        FROM events
        WHERE event = 'purchase'
          AND (country != 'FR' OR country IS NULL)
        GROUP BY group_1
        ORDER BY count(*) DESC, group_1 NULLS FIRST
        LIMIT 2
    ),
    matched AS (
        SELECT
            date_trunc('week', time)::DATE AS bucket,
            nullif(item, '') AS group_1,
            user
        FROM events
        WHERE event = 'purchase'
          AND (country != 'FR' OR country IS NULL)
    )
SELECT
    bucket,
    CASE WHEN t.kept = 1 THEN m.group_1 END AS of_group_1,
    CASE WHEN t.kept = 1 THEN 0 ELSE 1 END AS other,
    count(*) AS value
FROM matched AS m
LEFT JOIN top AS t ON m.group_1 IS NOT DISTINCT FROM t.group_1
GROUP BY bucket, of_group_1, other
ORDER BY bucket, other, value DESC NULLS LAST, of_group_1 NULLS FIRST
