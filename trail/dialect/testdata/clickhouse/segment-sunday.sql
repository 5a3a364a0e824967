SELECT toStartOfWeek(time, 0) AS bucket, country, uniqExact(user) AS value
FROM events
WHERE event = 'purchase'
GROUP BY bucket, country
ORDER BY bucket, value DESC NULLS LAST, country NULLS FIRST
SETTINGS enable_extended_results_for_datetime_functions = 1
