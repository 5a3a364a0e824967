SELECT nullif(country, '') AS group_1, paid, sum(price) AS value
FROM events
WHERE event = 'purchase'
GROUP BY group_1, paid
ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST, paid NULLS FIRST
