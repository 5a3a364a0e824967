SELECT nullif(item, '') AS group_1, sum(part)::BIGINT AS value
FROM (
    SELECT item, count(*) AS part
    FROM events
    WHERE contains(item, 'e')
      AND starts_with(item, 'ke')
      AND suffix(item, 'tle')
      AND (country != 'FR' OR country IS NULL)
      AND (device = 'desktop' OR coalesce(device, '') = '')
      AND campaign != ''
      AND campaign != 'it''s \ not'
      AND plan != ''
      AND plan <= 'plus'
      AND ((country != '' AND regexp_matches(country, '^[A-K].$')) OR country = E'x\ty\'"\\')
    GROUP BY item
)
GROUP BY group_1
ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST
