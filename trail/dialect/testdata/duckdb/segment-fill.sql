-- Buckets without events are added when the rows are read.
SELECT
    date_trunc('day', time)::DATE AS bucket,
    nullif(country, '') AS group_1,
    count(*) AS value
FROM events
WHERE event = 'purchase'
  AND item = 'kettle'
  AND time < TIMESTAMP '2026-01-26 00:00:00'
GROUP BY bucket, group_1
ORDER BY bucket, value DESC NULLS LAST, group_1 NULLS FIRST
