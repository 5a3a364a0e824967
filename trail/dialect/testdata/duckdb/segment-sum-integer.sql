SELECT date_trunc('month', time)::DATE AS bucket, sum(quantity) AS value
FROM events
WHERE event = 'purchase'
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
