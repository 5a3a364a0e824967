-- A sample of 25 % of the users by their hash; samples of different programs differ.
SELECT toStartOfMonth(time) AS bucket, count(*) AS value
FROM events
WHERE event = 'purchase'
  AND xxHash64(user) < 4611686018427387904
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
SETTINGS enable_extended_results_for_datetime_functions = 1
