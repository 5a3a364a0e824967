SELECT country, count(*) AS value
FROM events
WHERE (item = '' OR position(item, 'e') = 0)
  AND (country = '' OR NOT match(country, '(?-s)^[A-K]'))
GROUP BY country
ORDER BY value DESC NULLS LAST, country NULLS FIRST
