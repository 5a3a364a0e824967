-- Buckets are hours since 1970.
SELECT
    floor((epoch_ms(time) + 1800000) / 3600000)::BIGINT AS bucket,
    count(*) AS value
FROM events
WHERE event = 'purchase'
  AND time >= TIMESTAMP '2026-01-05 00:00:00'
  AND time < TIMESTAMP '2026-01-07 00:00:00'
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
