-- About 50 % of the users, by the hash that trail has too; samples of other programs differ.
SELECT
    country,
    sum(part) AS value,
    sum(toFloat64(part) * toFloat64(part)) AS squares
FROM (
    SELECT country, user, sum(price) AS part
    FROM events
    WHERE event = 'purchase'
      AND xxHash64(user) <= 9223372036854775808
    GROUP BY country, user
)
GROUP BY country
ORDER BY value DESC NULLS LAST, country NULLS FIRST
