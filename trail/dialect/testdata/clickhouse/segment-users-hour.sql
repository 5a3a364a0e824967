-- Buckets are hours since 1970.
SELECT DISTINCT user
FROM events
WHERE event = 'view'
  AND false
