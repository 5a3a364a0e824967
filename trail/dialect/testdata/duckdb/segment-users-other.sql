WITH
    top AS (
        SELECT nullif(country, '') AS group_1, paid AS group_2, 1 AS kept
        FROM events
        WHERE event = 'purchase'
        GROUP BY group_1, group_2
        ORDER BY count(*) DESC, group_1 NULLS FIRST, group_2 NULLS FIRST
        LIMIT 3
    )
SELECT DISTINCT user
FROM events
LEFT JOIN top AS t ON nullif(country, '') IS NOT DISTINCT FROM t.group_1 AND paid IS NOT DISTINCT FROM t.group_2
WHERE event = 'purchase'
  AND t.kept IS NULL
