SELECT item, count(*) AS value
FROM events
WHERE position(item, 'e') > 0
  AND startsWith(item, 'ke')
  AND endsWith(item, 'tle')
  AND country != 'FR'
  AND (device = 'desktop' OR device = '')
  AND campaign != ''
  AND campaign != 'it\'s \\ not'
  AND plan != ''
  AND plan <= 'plus'
  AND ((country != '' AND match(country, '(?-s)^[A-K].$')) OR country = 'x\ty\'"\\')
GROUP BY item
ORDER BY value DESC NULLS LAST, item NULLS FIRST
