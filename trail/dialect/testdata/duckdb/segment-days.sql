SELECT
    date_trunc('day', time)::DATE AS bucket,
    nullif(country, '') AS group_1,
    count(*) AS value
FROM events
WHERE event = 'purchase'
  AND campaign != ''
  AND price >= 20
  AND price <= 70
  AND time < TIMESTAMP '2026-01-19 00:00:00'
GROUP BY bucket, group_1
ORDER BY bucket, value DESC NULLS LAST, group_1 NULLS FIRST
