SELECT
    quantity,
    arrayElementOrNull(arraySort(groupArray(price)), intDiv(90 * count(price) + 99, 100)) AS value
FROM events
WHERE event = 'purchase'
GROUP BY quantity
ORDER BY value DESC NULLS LAST, quantity NULLS FIRST
