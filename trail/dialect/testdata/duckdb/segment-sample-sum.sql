-- About 50 % of the users; DuckDB has a hash of its own, so they are others than trail takes.
SELECT
    group_1,
    sum(part) AS value,
    sum(part::DOUBLE * part::DOUBLE) AS squares
FROM (
    SELECT nullif(country, '') AS group_1, user, sum(price) AS part
    FROM events
    WHERE event = 'purchase'
      AND hash(user) <= 9223372036854775808
    GROUP BY group_1, user
)
GROUP BY group_1
ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST
