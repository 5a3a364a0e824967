-- About 25 % of the users, by the hash that trail has too; samples of other programs differ.
SELECT
    bucket,
    coalesce(sum(part), 0) AS value,
    sum(toFloat64(part) * toFloat64(part)) AS squares
FROM (
    SELECT toStartOfMonth(time) AS bucket, user, count(*) AS part
    FROM events
    WHERE event = 'purchase'
      AND xxHash64(user) <= 4611686018427387904
    GROUP BY bucket, user
)
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
SETTINGS enable_extended_results_for_datetime_functions = 1
