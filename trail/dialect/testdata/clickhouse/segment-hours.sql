-- Buckets are hours since 1970.
SELECT
    toInt64(floor((toUnixTimestamp64Milli(time) + 1800000) / 3600000)) AS bucket,
    count(*) AS value
FROM events
WHERE event = 'purchase'
  AND time >= toDateTime64('2026-01-05 00:00:00.000', 3, 'UTC')
  AND time < toDateTime64('2026-01-07 00:00:00.000', 3, 'UTC')
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
