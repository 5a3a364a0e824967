SELECT DISTINCT user
FROM events
WHERE event = 'purchase'
  AND toMonday(time) = toDate32('2026-01-05')
  AND country = 'FR'
SETTINGS enable_extended_results_for_datetime_functions = 1
