SELECT
    toMonday(toTimeZone(time, 'Europe/Berlin')) AS bucket,
    device,
    uniqExact(user) AS value
FROM events
WHERE event IN ('view', 'cart')
GROUP BY bucket, device
ORDER BY bucket, value DESC NULLS LAST, device NULLS FIRST
SETTINGS enable_extended_results_for_datetime_functions = 1
