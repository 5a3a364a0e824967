-- Buckets without events are added when the rows are read.
SELECT bucket, nullif(country, '') AS group_1, sum(part)::BIGINT AS value
FROM (
    SELECT time::DATE AS bucket, country, count(*) AS part
    FROM events
    WHERE event = 'purchase'
      AND item = 'kettle'
      AND time < TIMESTAMP '2026-01-26 00:00:00'
    GROUP BY bucket, country
)
GROUP BY bucket, group_1
ORDER BY bucket, value DESC NULLS LAST, group_1 NULLS FIRST
