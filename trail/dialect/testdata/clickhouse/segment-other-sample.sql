-- About 50 % of the users, by the hash that trail has too; samples of other programs differ.
WITH
    top AS (
        SELECT country AS group_1, 1 AS kept
        FROM events
        WHERE event = 'purchase'
          AND xxHash64(user) <= 9223372036854775808
        GROUP BY group_1
        ORDER BY count(*) DESC, group_1 NULLS FIRST
        LIMIT 2
    ),
    matched AS (
        SELECT country AS group_1, user, price AS measured
        FROM events
        WHERE event = 'purchase'
          AND xxHash64(user) <= 9223372036854775808
    )
SELECT
    of_group_1,
    other,
    sum(part) AS value,
    sum(toFloat64(part) * toFloat64(part)) AS squares
FROM (
    SELECT
        CASE WHEN t.kept = 1 THEN m.group_1 ELSE '' END AS of_group_1,
        CASE WHEN t.kept = 1 THEN 0 ELSE 1 END AS other,
        user,
        sum(measured) AS part
    FROM matched AS m
    LEFT JOIN top AS t ON m.group_1 IS NOT DISTINCT FROM t.group_1
    GROUP BY of_group_1, other, user
)
GROUP BY of_group_1, other
ORDER BY other, value DESC NULLS LAST, of_group_1 NULLS FIRST
