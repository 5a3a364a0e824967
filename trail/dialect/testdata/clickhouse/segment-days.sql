SELECT toDate32(time) AS bucket, country, count(*) AS value
FROM events
WHERE event = 'purchase'
  AND campaign != ''
  AND ifNull(price >= 20, false)
  AND ifNull(price <= 70, false)
  AND time < toDateTime64('2026-01-19 00:00:00.000', 3, 'UTC')
GROUP BY bucket, country
ORDER BY bucket, value DESC NULLS LAST, country NULLS FIRST
SETTINGS enable_extended_results_for_datetime_functions = 1
