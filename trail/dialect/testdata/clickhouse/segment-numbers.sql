SELECT quantity, count(*) AS value
FROM events
WHERE event = 'purchase'
  AND ((ifNull(quantity >= 2, false) AND ifNull(price < 100, false) AND ifNull(paid = true, false)) OR (ifNull(quantity IN (1, 7), false) AND (ifNull(price != 64.9, false) OR price IS NULL) AND (ifNull(paid != true, false) OR paid IS NULL)) OR quantity IS NULL)
GROUP BY quantity
ORDER BY value DESC NULLS LAST, quantity NULLS FIRST
