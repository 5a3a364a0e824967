SELECT quantity, count(*) AS value
FROM events
WHERE event = 'purchase'
  AND ((quantity >= 2 AND price < 100 AND paid = true) OR (quantity IN (1, 7) AND (price != 64.9 OR price IS NULL) AND (paid != true OR paid IS NULL)) OR quantity IS NULL)
GROUP BY quantity
ORDER BY value DESC NULLS LAST, quantity NULLS FIRST
