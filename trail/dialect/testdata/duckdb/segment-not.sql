SELECT nullif(country, '') AS group_1, sum(part)::BIGINT AS value
FROM (
    SELECT country, count(*) AS part
    FROM events
    WHERE (coalesce(item, '') = '' OR NOT contains(item, 'e'))
      AND (coalesce(country, '') = '' OR NOT regexp_matches(country, '^[A-K]'))
    GROUP BY country
)
GROUP BY group_1
ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST
