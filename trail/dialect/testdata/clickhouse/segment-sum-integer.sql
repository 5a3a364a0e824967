SELECT toStartOfMonth(time) AS bucket, sum(toInt128(quantity)) AS value
FROM events
WHERE event = 'purchase'
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
SETTINGS enable_extended_results_for_datetime_functions = 1
