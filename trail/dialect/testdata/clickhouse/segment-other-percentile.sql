WITH
    top AS (
        SELECT price AS group_1, 1 AS kept
        FROM events
        WHERE event = 'purchase'
        GROUP BY group_1
        ORDER BY count(*) DESC, group_1 NULLS FIRST
        LIMIT 2
    ),
    matched AS (
        SELECT price AS group_1, user, price AS measured
        FROM events
        WHERE event = 'purchase'
    )
SELECT
    CASE WHEN t.kept = 1 THEN m.group_1 END AS of_group_1,
    CASE WHEN t.kept = 1 THEN 0 ELSE 1 END AS other,
    arrayElementOrNull(arraySort(groupArray(measured)), intDiv(50 * count(measured) + 99, 100)) AS value
FROM matched AS m
LEFT JOIN top AS t ON m.group_1 IS NOT DISTINCT FROM t.group_1
GROUP BY of_group_1, other
ORDER BY other, value DESC NULLS LAST, of_group_1 NULLS FIRST
