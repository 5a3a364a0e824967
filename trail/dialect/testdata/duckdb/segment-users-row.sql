SELECT DISTINCT user
FROM events
WHERE event = 'purchase'
  AND date_trunc('week', time)::DATE = DATE '2026-01-05'
  AND nullif(country, '') = 'FR'
