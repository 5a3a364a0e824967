-- About 25 % of the users; DuckDB has a hash of its own, so they are others than trail takes.
SELECT
    bucket,
    coalesce(sum(part), 0) AS value,
    sum(part::DOUBLE * part::DOUBLE) AS squares
FROM (
    SELECT date_trunc('month', time)::DATE AS bucket, user, count(*) AS part
    FROM events
    WHERE event = 'purchase'
      AND hash(user) <= 4611686018427387904
    GROUP BY bucket, user
)
GROUP BY bucket
ORDER BY bucket, value DESC NULLS LAST
