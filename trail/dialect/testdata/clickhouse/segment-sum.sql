SELECT country, paid, sum(price) AS value
FROM events
WHERE event = 'purchase'
GROUP BY country, paid
ORDER BY value DESC NULLS LAST, country NULLS FIRST, paid NULLS FIRST
