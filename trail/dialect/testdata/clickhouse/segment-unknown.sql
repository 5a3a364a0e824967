SELECT '' AS group_1, count(*) AS value
FROM events
WHERE event = 'view'
HAVING count(*) > 0
