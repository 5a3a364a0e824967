SELECT plan, avg(price) AS value
FROM events
WHERE event = 'purchase'
GROUP BY plan
ORDER BY value DESC NULLS LAST, plan NULLS FIRST
