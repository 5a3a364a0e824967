SELECT
    date_trunc('week', timezone('Europe/Berlin', timezone('UTC', time)))::DATE AS bucket,
    nullif(device, '') AS group_1,
    count(DISTINCT user) AS value
FROM events
WHERE event IN ('view', 'cart')
GROUP BY bucket, group_1
ORDER BY bucket, value DESC NULLS LAST, group_1 NULLS FIRST
