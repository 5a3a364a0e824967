-- A sample of 25 % of the users by their hash; samples of different programs differ.
SELECT date_trunc('month', time)::DATE AS bucket, count(*) AS value
FROM events
WHERE event = 'purchase'
  AND hash(user) < 4611686018427387904
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
