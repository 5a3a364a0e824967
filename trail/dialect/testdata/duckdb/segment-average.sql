SELECT nullif(plan, '') AS group_1, avg(price) AS value
FROM events
WHERE event = 'purchase'
GROUP BY group_1
ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST
