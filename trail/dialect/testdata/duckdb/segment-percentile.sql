SELECT quantity, quantile_disc(price, 0.90) AS value
FROM events
WHERE event = 'purchase'
GROUP BY quantity
ORDER BY value DESC NULLS LAST, quantity NULLS FIRST
