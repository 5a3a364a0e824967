SELECT count(*) AS value
FROM events
WHERE event = 'purchase'
