SELECT
    (date_trunc('week', time::DATE + 1)::DATE - 1) AS bucket,
    nullif(country, '') AS group_1,
    count(DISTINCT user) AS value
FROM events
WHERE event = 'purchase'
GROUP BY bucket, group_1
ORDER BY bucket, value DESC NULLS LAST, group_1 NULLS FIRST
